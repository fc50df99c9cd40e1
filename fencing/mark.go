package fencing

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
)

// Mode says how a store treats a token above its mark.
type Mode int

// The two modes. Strict is the default.
const (
	// Strict refuses a number that was never raised and a token without grant id:
	// nobody can brick a resource by writing with a huge number.
	Strict Mode = iota
	// Classic accepts a higher number and raises the mark to it: for outside lock
	// services, whose grants the store does not hear of. Whoever may write can brick
	// the resource.
	Classic
)

// String returns "strict" or "classic".
func (m Mode) String() string {
	switch m {
	case Strict:
		return "strict"
	case Classic:
		return "classic"
	}
	return "mode(" + strconv.Itoa(int(m)) + ")"
}

// Mark is what a store remembers per resource, beside the data: the highest token it
// has seen. Printing a Mark hides its grant id.
type Mark struct {
	Number  int64  // 0..MaxNumber; 0 only for a resource never seen
	Grant   string // the grant id of the token that was raised; empty for a plain number
	Retired bool   // equals no token any more
}

// Absent is the mark of a resource that a store knows nothing of. Floor is the number
// below which pruned marks lay, 0 if none was ever pruned.
func Absent(floor int64) Mark { return Mark{Number: floor, Retired: true} }

// Check applies the whole rule to an operation with t: nil if a store of this mode
// accepts it, else a [*StaleError]. A classic store that accepts a number above the
// mark must first [Mark.Raise] it, in a committed step of its own.
func (m Mark) Check(t Token, mode Mode) error {
	if mode == Strict && t.Grant == "" {
		return m.stale(t, GrantRequired)
	}
	if mode == Classic && t.Number > m.Number {
		return nil
	}
	return m.Current(t)
}

// Current reports whether t is the mark: nil, or a [*StaleError]. It is Check without
// the mode, what a backend decides inside its atomic step.
func (m Mark) Current(t Token) error {
	switch {
	case t.Number < m.Number:
		return m.stale(t, Superseded)
	case t.Number > m.Number:
		return m.stale(t, Ungranted)
	case m.Retired:
		return m.stale(t, Retired)
	case t.Grant != m.Grant:
		return m.stale(t, Duplicate)
	}
	return nil
}

// Raise makes t the mark and returns it. A token that already is the mark is returned
// unchanged; a lower, retired or duplicate one is refused with a [*StaleError].
func (m Mark) Raise(t Token) (Mark, error) {
	if t.Number > m.Number {
		return Mark{Number: t.Number, Grant: t.Grant}, nil
	}
	return m, m.Current(t)
}

// Retire ends t: a mark that equals it keeps its number and equals no token any more.
// Any other mark stays as it is.
func (m Mark) Retire(t Token) Mark {
	if m.Current(t) != nil {
		return m
	}
	return Mark{Number: m.Number, Retired: true}
}

// Evict ends t without its holder. A lower mark becomes {t.Number, retired}, so that a
// raise of t that is still under way is refused when it arrives; an equal one is
// retired; any other stays. A token without grant id (an operator knows only the
// number) equals every mark of its number.
func (m Mark) Evict(t Token) Mark {
	if t.Number > m.Number || t.Number == m.Number && (t.Grant == "" || t.Grant == m.Grant) {
		return Mark{Number: t.Number, Retired: true}
	}
	return m
}

func (m Mark) stale(t Token, r Reason) error {
	return &StaleError{Token: t, Highest: m.Number, Reason: r}
}

// String returns "34" or "34 (retired)": the mark without its secret.
func (m Mark) String() string {
	if m.Retired {
		return strconv.FormatInt(m.Number, 10) + " (retired)"
	}
	return strconv.FormatInt(m.Number, 10)
}

// GoString hides the grant id from %#v.
func (m Mark) GoString() string {
	return fmt.Sprintf("fencing.Mark{Number:%d, Retired:%t}", m.Number, m.Retired)
}

// Format hides the grant id from every verb.
func (m Mark) Format(f fmt.State, verb rune) {
	if verb == 'v' && f.Flag('#') {
		_, _ = io.WriteString(f, m.GoString())
		return
	}
	_, _ = io.WriteString(f, m.String())
}

// LogValue hides the grant id from log/slog.
func (m Mark) LogValue() slog.Value {
	return slog.GroupValue(slog.Int64("number", m.Number), slog.Bool("retired", m.Retired))
}

// MarshalJSON hides the grant id.
func (m Mark) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Number  string `json:"number"`
		Retired bool   `json:"retired"`
	}{strconv.FormatInt(m.Number, 10), m.Retired})
}

// Reason says why a token was refused. The values are part of the wire format.
type Reason string

// The reasons of the rule.
const (
	Superseded    Reason = "superseded"     // a newer token was raised
	Retired       Reason = "retired"        // released, evicted, or the store was restarted
	Duplicate     Reason = "duplicate"      // another grant has the same number
	Ungranted     Reason = "ungranted"      // the number was never raised in this store
	GrantRequired Reason = "grant-required" // a plain number, and the store is strict
)

// ErrStale matches every [*StaleError].
var ErrStale = errors.New("fencing: stale token")

// StaleError says that a store refused a token. Nothing was written.
type StaleError struct {
	Token   Token
	Highest int64 // the number of the store's mark
	Reason  Reason
}

// Error implements error, without the grant id.
func (e *StaleError) Error() string {
	s := fmt.Sprintf("token %d of %s refused: ", e.Token.Number, e.Token.Resource)
	switch e.Reason {
	case Superseded:
		return s + fmt.Sprintf("%d is older than %d", e.Token.Number, e.Highest)
	case Retired:
		return s + "it was released, evicted, or the store was restarted since"
	case Duplicate:
		return s + "another grant has the same number"
	case Ungranted:
		return s + fmt.Sprintf("the highest number granted here is %d", e.Highest)
	case GrantRequired:
		return s + "a plain number is not enough, the grant id is missing"
	}
	return s + string(e.Reason)
}

// Is reports whether target is [ErrStale].
func (e *StaleError) Is(target error) bool { return target == ErrStale }

// Outcome is [Refused].
func (e *StaleError) Outcome() Outcome { return Refused }
