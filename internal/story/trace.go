package story

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/fencegate/fencegate/internal/trace"
)

// Trace is the recorded form of a whole run, which the lab takes in.
func Trace(lock, store string, results []Result) trace.File {
	f := trace.File{Format: trace.Format, Version: trace.Version, Source: "demo", Lock: lock, Store: store, Runs: []trace.Run{}}
	for _, r := range results {
		f.Runs = append(f.Runs, r.Trace())
	}
	return f
}

// rules is what a mode is called in a trace: under which rules it was played.
func (m Mode) rules() string {
	switch {
	case !m.Locked:
		return "none"
	case m.Defeated:
		return "lock"
	case m.RaiseAtGrant:
		return "grant"
	}
	return "writes"
}

// Trace is the recorded form of a result.
func (r Result) Trace() trace.Run {
	run := trace.Run{
		Name: r.Mode.Name, Title: r.Mode.Title, Mode: r.Mode.rules(), Moral: r.Mode.Moral,
		Account: trace.Account{
			Initial: strconv.Itoa(Initial), HandedOut: strconv.Itoa(r.HandedOut), Remaining: strconv.FormatInt(r.Remaining, 10),
			Held: r.Held(), Text: r.account(),
		},
		Events: []trace.Event{},
	}
	events := slices.Clone(r.Events)
	slices.SortStableFunc(events, func(a, b Event) int { return cmp.Compare(a.Done, b.Done) })
	mark := trace.Mark{}
	for i, e := range events {
		t := trace.Event{
			Seq: i + 1, AtMS: e.At.Milliseconds(), DoneMS: e.Done.Milliseconds(), Actor: e.Actor, To: e.to(), Action: string(e.Action),
			Number: positive(e.Number), Value: value(e), Highest: positive(e.Highest), Outcome: e.Outcome, Text: e.text(),
		}
		if e.Action == Acquire && e.Outcome == Granted {
			t.LeaseMS = r.TTL.Milliseconds()
		}
		if e.Action == Write && e.Outcome == Refused && e.Highest > e.Number {
			t.Reason = "superseded"
		}
		now := trace.Mark{Resource: "coupon", Number: strconv.FormatInt(e.Mark.Number, 10), Retired: e.Mark.Retired}
		if e.Mark.Number >= firstNumber && now != mark {
			mark = now
			t.Marks = []trace.Mark{now}
		}
		run.Events = append(run.Events, t)
	}
	r.damage(run.Events)
	return run
}

// damage is told with the last accepted write of a telling that did not account for every coupon: by
// then one of the writes before it has been lost.
func (r Result) damage(events []trace.Event) {
	if r.Held() {
		return
	}
	for i := len(events) - 1; i >= 0; i-- {
		if e := &events[i]; e.Action == string(Write) && e.Outcome == Accepted {
			e.Damage = fmt.Sprintf("an update was lost: %d coupons were handed out, and %d are left of %d", r.HandedOut, r.Remaining, Initial)
			return
		}
	}
}

func (e Event) to() string {
	switch e.Action {
	case Acquire, Release:
		return Lock
	case Read, Write, Raise:
		return Store
	}
	return ""
}

// text tells of an event in one sentence.
func (e Event) text() string {
	switch e.Action {
	case Acquire:
		return fmt.Sprintf("%s takes the lock and gets token %d.", e.Actor, e.Number)
	case Read:
		return fmt.Sprintf("%s reads: %d coupons are left.", e.Actor, e.Value)
	case Check:
		if e.Outcome == OK {
			return e.Actor + " looks at its lease: it is alive."
		}
		return e.Actor + " looks at its lease: it is over."
	case Pause:
		return e.Actor + " is stopped."
	case Wake:
		return e.Actor + " goes on and does not know that time has passed."
	case Raise:
		return fmt.Sprintf("The lock raises %d in the store before it answers.", e.Number)
	case Expire:
		return fmt.Sprintf("The lease of %d is over.", e.Number)
	case Release:
		return fmt.Sprintf("%s gives the lock back: %d is retired.", e.Actor, e.Number)
	}
	with := ""
	if e.Number > 0 {
		with = fmt.Sprintf(" with token %d", e.Number)
	}
	switch {
	case e.Outcome == Accepted:
		return fmt.Sprintf("%s writes %d%s, and the store accepts it.", e.Actor, e.Value, with)
	case e.Highest > e.Number:
		return fmt.Sprintf("%s writes %d%s. The store has seen %d and refuses it.", e.Actor, e.Value, with, e.Highest)
	}
	return fmt.Sprintf("%s writes %d%s: %s.", e.Actor, e.Value, with, e.Outcome)
}
