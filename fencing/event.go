package fencing

import (
	"errors"
	"time"
)

// EventKind names what happened. The values are part of the wire format.
type EventKind string

// The kinds of events.
const (
	EventGranted    EventKind = "granted"    // a lock was granted
	EventReissued   EventKind = "reissued"   // a grant got a higher number, above a store's mark
	EventRegression EventKind = "regression" // the lock store's counter was found to have gone back
	EventRaised     EventKind = "raised"     // a token became a store's mark
	EventRenewed    EventKind = "renewed"    // a lease was extended
	EventReleased   EventKind = "released"   // a holder gave its lock back
	EventEvicted    EventKind = "evicted"    // a token was ended without its holder
	EventLost       EventKind = "lost"       // a lease can no longer be trusted
	EventApplied    EventKind = "applied"    // a commit was applied
	EventReplayed   EventKind = "replayed"   // a commit had been applied before, under its key; the token need not be the mark
	EventRead       EventKind = "read"       // a fenced read was answered
	EventRefused    EventKind = "refused"    // the fence or the data said no
	EventFailed     EventKind = "failed"     // an attempt failed, nothing happened
	EventUnknown    EventKind = "unknown"    // an attempt's reply was lost
)

// Event is one thing that happened. Everything that is shown (demo, metrics, event
// stream, lab) is drawn from these. It contains no secret. A handler (the OnEvent field
// of several Options) is called synchronously and concurrently: it must be quick and
// safe for concurrent use.
type Event struct {
	Time     time.Time
	Kind     EventKind
	Attempt  EventKind // where Kind is refused, failed or unknown: what it would have been else
	Resource string
	Number   int64         // the token's number; 0 where there is none
	Highest  int64         // the store's number, where one was reported
	Reason   string        // why: a refusal's Reason, an eviction's, a failure's text
	Label    string        // what the holder calls itself
	Elapsed  time.Duration // how long the attempt took, where it was measured
}

// Explain makes e tell of a failed attempt: its kind becomes its Attempt, and refused, failed
// or unknown by the error's outcome; Reason and Highest are filled in. A nil error changes
// nothing.
func Explain(e *Event, err error) {
	kind := EventUnknown
	switch OutcomeOf(err) {
	case Applied:
		return
	case Refused:
		kind = EventRefused
	case Failed:
		kind = EventFailed
	}
	e.Attempt, e.Kind = e.Kind, kind
	e.Reason = err.Error()
	if stale, ok := errors.AsType[*StaleError](err); ok {
		e.Reason, e.Highest = string(stale.Reason), stale.Highest
	}
}
