package model

import (
	"fmt"
	"strings"
)

// StorageRules are what a data store and its holders do. The zero value is the weakest form: the
// fence is checked on writes only, numbers are compared and nothing else.
type StorageRules struct {
	Raised bool // the token is raised at the grant, before the holder reads
	Grants bool // grant ids are compared where numbers are equal
	Split  bool // check and write are two steps
	Writes Writes
	Resend Resend
	AnyNum bool // the lock may give any numbers: the same twice, and lower ones later
}

// Writes is how a holder writes.
type Writes int

// A holder writes one value, or two that belong together.
const (
	OneValue   Writes = iota
	TwoCommits        // two values, one commit each
	OneCommit         // two values in one commit
)

// Resend is what a holder does when the reply to its write is lost.
type Resend int

// How a write whose reply was lost is sent again.
const (
	Never       Resend = iota // replies are not lost
	Blindly                   // without a key
	FenceFirst                // under a key that the store looks up after the fence
	RecordFirst               // under a key that the store looks up before the fence
)

// The rules of the storage model.
const (
	Lost   = "LOST"   // an acknowledged update is not in the value at the end
	Ghost  = "GHOST"  // an update is there whose holder was told that it was refused
	Double = "DOUBLE" // one update was applied twice
	Torn   = "TORN"   // two values that belong together were seen, or left, apart
)

const holders = 3

// StorageState is a store and its holders. An update adds the holder's bit to the value that it has
// read, so that a value tells whose updates are in it.
type StorageState struct {
	numbers [holders]int8 // of the holders' tokens
	highest int8          // the mark
	grant   int8          // the mark's holder; -1: none
	x, y    uint8         // the values
	torn    bool
	at      [holders]place
	read    [holders]uint8
	applied [holders]int8
}

// place is where a holder is in its work.
type place int8

const (
	asking place = iota
	reading
	writing
	checked    // the token was found good, the write is still to come
	halfway    // of two commits, one is made
	unanswered // written, the reply was lost
	committed  // told so
	rejected   // told so
)

var _ Model[StorageState] = StorageRules{}

// Starts implements [Model]: every assignment of numbers to holders.
func (r StorageRules) Starts() []StorageState {
	var all []StorageState
	for a := int8(1); a <= holders; a++ {
		for b := int8(1); b <= holders; b++ {
			for c := int8(1); c <= holders; c++ {
				if r.AnyNum || a != b && b != c && a != c {
					all = append(all, StorageState{numbers: [holders]int8{a, b, c}, grant: -1})
				}
			}
		}
	}
	return all
}

// Same implements [Model].
func (StorageRules) Same(s StorageState) StorageState { return s }

func (r StorageRules) accepts(s *StorageState, i int) bool {
	n := s.numbers[i]
	return n > s.highest || n == s.highest && (!r.Grants || s.grant == int8(i)) //nolint:gosec // 0..2
}

// raise makes the holder's token the mark.
func (r StorageRules) raise(s *StorageState, i int) {
	if s.numbers[i] > s.highest || r.Grants {
		s.highest, s.grant = s.numbers[i], int8(i) //nolint:gosec // 0..2
	}
}

// Next implements [Model].
func (r StorageRules) Next(s *StorageState, say bool, add func(StorageState, Step, string)) {
	for i := range holders {
		step := func(format string, change func(t *StorageState), args ...any) {
			t := *s
			change(&t)
			what := Step{}
			if say {
				what.Text = name(s, i) + " " + fmt.Sprintf(format, args...)
			}
			add(t, what, r.broken(&t))
		}
		to := func(p place) func(*StorageState) { return func(t *StorageState) { t.at[i] = p } }
		good := r.accepts(s, i)
		switch s.at[i] {
		case asking:
			switch {
			case !r.Raised:
				step("is granted the lock", to(reading))
			case good:
				step("is granted the lock, and its token is raised", func(t *StorageState) { t.at[i] = reading; r.raise(t, i) })
			default:
				step("is granted the lock, and the raise of its token is refused", to(rejected))
			}
		case reading:
			step("reads %s", func(t *StorageState) {
				t.at[i], t.read[i] = writing, s.x
				t.torn = t.torn || r.Writes != OneValue && s.x != s.y
			}, r.values(s))
		case writing:
			r.write(s, i, good, step, to)
		case checked:
			step("writes %s", func(t *StorageState) { t.at[i] = committed; t.x = s.read[i] | 1<<i }, set(s.read[i]|1<<i))
		case halfway:
			if good {
				step("writes the second value, %s", func(t *StorageState) { t.at[i] = committed; t.y = s.read[i] | 1<<i; r.raise(t, i) }, set(s.read[i]|1<<i))
			} else {
				step("is refused when it writes the second value", to(rejected))
			}
		case unanswered:
			r.resend(i, good, step, to)
		case committed, rejected:
		}
	}
}

// stepping adds a step.
type stepping func(format string, change func(t *StorageState), args ...any)

func (r StorageRules) write(s *StorageState, i int, good bool, step stepping, to func(place) func(*StorageState)) {
	value := s.read[i] | 1<<i
	all := func(p place) func(*StorageState) {
		return func(t *StorageState) {
			t.at[i], t.x, t.y = p, value, value
			t.applied[i]++
			r.raise(t, i)
		}
	}
	switch {
	case !good:
		step("writes, and is refused", to(rejected))
	case r.Split:
		step("has its token checked, and it is good", func(t *StorageState) { t.at[i] = checked; r.raise(t, i) })
	case r.Writes == TwoCommits:
		step("writes the first value, %s", func(t *StorageState) { t.at[i], t.x = halfway, value; r.raise(t, i) }, set(value))
	default:
		if r.Resend != Never {
			step("writes %s, and the reply is lost", all(unanswered), set(value))
		}
		step("writes %s, and is told so", all(committed), set(value))
	}
}

func (r StorageRules) resend(i int, good bool, step stepping, to func(place) func(*StorageState)) {
	switch {
	case r.Resend == RecordFirst:
		step("sends it again, the record of its key is found, and it is told that it was written", to(committed))
	case !good:
		step("sends it again, and is told that it is refused", to(rejected))
	case r.Resend == FenceFirst:
		step("sends it again, its token is good, and it is told that it was written", to(committed))
	default:
		step("sends it again, and it is applied again", func(t *StorageState) { t.at[i] = committed; t.applied[i]++ })
	}
}

// broken says which rule a state breaks.
func (r StorageRules) broken(s *StorageState) string {
	if s.torn {
		return Torn
	}
	over := true
	for i := range holders {
		if s.applied[i] > 1 {
			return Double
		}
		over = over && (s.at[i] >= committed || s.at[i] == asking) // who has not begun may never do
	}
	if !over {
		return ""
	}
	for i := range holders {
		inX, inY := s.x&(1<<i) != 0, s.y&(1<<i) != 0
		switch {
		case s.at[i] == committed && !inX:
			return Lost
		case s.at[i] == rejected && r.Writes == OneValue && inX:
			return Ghost
		case s.at[i] == rejected && r.Writes != OneValue && inX != inY:
			return Torn
		}
	}
	return ""
}

// name is a holder with its number, and its grant where numbers may be equal.
func name(s *StorageState, i int) string {
	return fmt.Sprintf("%c (number %d)", "ABC"[i], s.numbers[i])
}

// values says what a holder reads.
func (r StorageRules) values(s *StorageState) string {
	if r.Writes == OneValue {
		return set(s.x)
	}
	return set(s.x) + " and " + set(s.y)
}

// set is a value: whose updates are in it.
func set(v uint8) string {
	var in []string
	for i := range holders {
		if v&(1<<i) != 0 {
			in = append(in, "ABC"[i:i+1])
		}
	}
	return "{" + strings.Join(in, " ") + "}"
}
