// Package story tells of the paused client, as data: who does what, in which order, under
// which rules, and what must come of it. Run plays a mode with real clients against a
// real lock and a real store.
package story

// Action is what an actor does in one step.
type Action string

// The actions. Acquire to Release are carried out by the actor itself; Pause and Wake are
// done to it.
const (
	Acquire Action = "acquire" // take the lock, waiting for it
	Read    Action = "read"    // read how many coupons are left
	Check   Action = "check"   // look once more whether the lease is alive
	Write   Action = "write"   // hand out one coupon: write what was read, less one
	Release Action = "release" // give the lock back
	Pause   Action = "pause"   // stop the process
	Wake    Action = "wake"    // let it go on, with the write that it was about to do
)

// What the events tell of beside the actions: what the lock and the store did.
const (
	Expire Action = "expire" // a hold's time was up
	Raise  Action = "raise"  // a token became the store's mark
)

// Step is one thing that happens to or by an actor.
type Step struct {
	Actor  string
	Action Action
	// Retry: only if the actor's last write was refused.
	Retry bool
}

// The actors and the places.
const (
	A     = "A"
	B     = "B"
	Lock  = "lock"
	Store = "store"
)

// Mode is one telling of the story.
type Mode struct {
	Name  string
	Title string
	// Moral says in one sentence what was seen.
	Moral string

	// Locked: the clients take the lock and send its tokens.
	Locked bool
	// Defeated: every caller's token is replaced by a current one on its way to the
	// store, the "current token" getter mistake.
	Defeated bool
	// RaiseAtGrant: the lock's tokens are raised in the store before the holder reads;
	// else the store is classic and learns of them by the writes.
	RaiseAtGrant bool

	Steps []Step
	Want  Expected
}

// Expected is what must come of a mode that starts with Initial coupons.
type Expected struct {
	LateWrite string // what becomes of A's late write: Accepted or Refused
	HandedOut int
	Remaining int64
	Tokens    []string // the numbers that were granted, where no attempt came to nothing
}

// Initial is how many coupons there are. firstNumber is what A is granted first: readers
// of the literature know the paused client as 33 and its successor as 34.
const (
	Initial     = 10
	firstNumber = 33
)

// The outcomes of steps.
const (
	Granted  = "granted"
	Accepted = "accepted"
	Refused  = "refused"
	OK       = "ok"
	Lost     = "lost"
	Failed   = "failed"
)

func by(actor string, actions ...Action) (steps []Step) {
	for _, a := range actions {
		steps = append(steps, Step{Actor: actor, Action: a})
	}
	return steps
}

func join(parts ...[]Step) (steps []Step) {
	for _, p := range parts {
		steps = append(steps, p...)
	}
	return steps
}

// again is what A does when its late write was refused: it starts over.
func again() []Step {
	steps := by(A, Acquire, Read, Write, Release)
	for i := range steps {
		steps[i].Retry = true
	}
	return steps
}

// Modes returns the tellings, in the order in which they build on each other.
func Modes() []Mode {
	var (
		takeover = join(
			by(A, Acquire, Read, Check, Pause),
			by(B, Acquire, Read, Write, Release),
			by(A, Wake), again(),
		)
		gap = join(
			by(A, Acquire, Read, Check, Pause),
			by(B, Acquire, Read),
			by(A, Wake),
			by(B, Write, Release), again(),
		)
		fenced = Expected{LateWrite: Refused, HandedOut: 2, Remaining: 8, Tokens: []string{"33", "34", "35"}}
		lost   = Expected{LateWrite: Accepted, HandedOut: 2, Remaining: 9, Tokens: []string{"33", "34"}}
	)
	return []Mode{
		{
			Name: "none", Title: "no lock",
			Moral:    "Both read 10 and wrote 9: two coupons were handed out, and one was counted.",
			Defeated: true,
			Steps:    join(by(A, Read, Pause), by(B, Read, Write), by(A, Wake)),
			Want:     Expected{LateWrite: Accepted, HandedOut: 2, Remaining: 9},
		},
		{
			Name: "lock", Title: "the lock, and a store whose check is defeated",
			Moral:  "A's lease had ended while A slept. The lock did its part, and it did not help.",
			Locked: true, Defeated: true, RaiseAtGrant: true,
			Steps: takeover, Want: lost,
		},
		{
			Name: "fence", Title: "the lock and the fence",
			Moral:  "The store had seen 34, so it refused 33. A started over, and every coupon is accounted for.",
			Locked: true, RaiseAtGrant: true,
			Steps: takeover, Want: fenced,
		},
		{
			Name: "gap-writes", Title: "the fence is checked on writes only, and B has not written yet",
			Moral:  "The store had not heard of 34 when 33 wrote: both writes were accepted, and one was lost.",
			Locked: true,
			Steps:  gap, Want: lost,
		},
		{
			Name: "gap-grant", Title: "the same, with the fence raised at the grant",
			Moral:  "The store knew of 34 before B read: it refused 33, and nothing was lost.",
			Locked: true, RaiseAtGrant: true,
			Steps: gap, Want: fenced,
		},
	}
}
