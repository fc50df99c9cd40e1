// Package history is what a run writes down: every call of every client, before it is sent and
// when it is answered, what the nemesis did, and what the stores held in the end.
//
// Times are nanoseconds of the machine's monotonic clock (Now), which all processes share, and which
// goes on while a process is stopped.
package history

// Kind names a call.
type Kind string

// The kinds of calls.
const (
	Acquire Kind = "acquire" // Tokens after the answer: one per resource; Until is the lease's deadline at the grant
	Release Kind = "release" // Until is how long the lease was trusted; Freed as answered
	Renew   Kind = "renew"   // a renewal beside the Locker's own, by Issuer.Renew, such as one after the release
	Reenter Kind = "reenter" // Acquire with a lease's context; Tokens[0] is the lease's, Tokens[1] the one that came back
	Read    Kind = "read"    // a fenced read of one record: Cells[0]
	Commit  Kind = "commit"  // Cells is what the writes were computed from, read under the same token
)

// Op is one call. It is written down twice under one ID: before the call, with Return 0, and after
// the answer. A client that was killed leaves calls without an answer: their outcome is unknown.
type Op struct {
	ID       string  `json:"id"` // unique in the run
	Process  int     `json:"p"`
	Seat     int     `json:"seat"`
	Workload string  `json:"w"`
	Kind     Kind    `json:"kind"`
	Group    string  `json:"group"` // what is checked together: a resource, or the first of several that are committed together
	Call     int64   `json:"call"`
	Return   int64   `json:"ret,omitempty"`
	Tokens   []Token `json:"tokens,omitempty"` // one per resource of the group
	Cells    []Cell  `json:"cells,omitempty"`
	Writes   []Write `json:"writes,omitempty"` // Commit; their results after the answer
	Key      string  `json:"key,omitempty"`    // Commit: the idempotency key. Attempts under one key are one logical commit
	Once     bool    `json:"once,omitempty"`   // Commit: a one-call commit, the gateway takes the lock; no Tokens
	Forged   bool    `json:"forged,omitempty"` // sent with a token that nobody was granted, or that is known to have ended: must not be applied
	Replayed bool    `json:"replayed,omitempty"`
	Until    int64   `json:"until,omitempty"` // Acquire, Release: until when the lease was trusted
	Left     bool    `json:"left,omitempty"`  // Acquire: nobody renews it, and it is left, or kept beyond its end, on purpose
	Lost     bool    `json:"lost,omitempty"`  // Release: the lease had told its holder that it is lost
	Freed    bool    `json:"freed,omitempty"` // Release: as answered
	Outcome  string  `json:"out,omitempty"`   // applied, refused, failed, unknown; empty while there is no answer
	// Reason is a fencing.Reason where the fence refused; "held", "lost", "below-minimum",
	// "version-mismatch", ... where something else did.
	Reason string `json:"why,omitempty"`
	Error  string `json:"err,omitempty"`
}

// Token is a fencing token without its secret.
type Token struct {
	Resource string `json:"r"`
	Number   int64  `json:"n"`
	Grant    string `json:"g"` // the fingerprint of the grant id, see Fingerprint
}

// Cell is a record as it was read.
type Cell struct {
	Resource string `json:"r"`
	Key      string `json:"k"`
	Value    string `json:"v"`
	Version  int64  `json:"ver,omitempty"` // 0: there is no such record
}

// Write is one operation of a commit.
type Write struct {
	Kind     string `json:"op"` // put, delete, add
	Resource string `json:"r"`
	Key      string `json:"k"`
	Value    string `json:"v,omitempty"`   // put
	Delta    int64  `json:"d,omitempty"`   // add
	Min      int64  `json:"min,omitempty"` // add
	Version  int64  `json:"ver,omitempty"` // after the answer: the record's version
	Counter  int64  `json:"sum,omitempty"` // after the answer: an add's sum
}

// Loss says what a fault makes a server forget, and so which promises it suspends.
type Loss string

// The kinds of losses.
const (
	LosesNothing Loss = ""
	LosesLocks   Loss = "locks"   // the lock store forgets holds or numbers, or its clock jumps: two may hold the lock at once
	LosesData    Loss = "data"    // the store goes back to an earlier state: a new era begins, with what is found then
	LosesCommits Loss = "commits" // the store may forget a little of what it acknowledged (asynchronous failover): a new era, too
)

// Has reports whether a fault of this loss lets the lock be held twice.
func (l Loss) Has(other Loss) bool { return l == other }

// Fault is what the nemesis did once.
type Fault struct {
	Name      string `json:"name"`
	Detail    string `json:"detail,omitempty"`
	From      int64  `json:"from"`             // before the injection began
	Injected  int64  `json:"injected"`         // the injection was complete
	Heal      int64  `json:"heal"`             // before the healing began
	To        int64  `json:"to"`               // healed
	Recovered int64  `json:"recovered"`        // every group has had a grant and an acknowledged write since; 0: it never had
	Loses     []Loss `json:"loses,omitempty"`  // what servers may have forgotten
	Paused    []int  `json:"paused,omitempty"` // the processes that were stopped from Injected to Heal
	Killed    []int  `json:"killed,omitempty"`
	Void      string `json:"void,omitempty"` // why this machine cannot make it
	Cut       bool   `json:"cut,omitempty"`  // the run ended before everybody could be served again: Recovered says nothing
	Ops       []Op   `json:"-"`              // calls that the fault made itself, such as forged ones: they become the history's
}

// Leak is something that was left over when everybody had gone.
type Leak struct {
	What  string `json:"what"` // "goroutines", "connections", "waiters", "locks"
	Where string `json:"where"`
	Count int    `json:"count"`
	Text  string `json:"text,omitempty"`
}

// Draw is a number that the lock store has drawn for a grant, as a direct client heard of it: before the stores that are
// bound to the issuer had a say. Most become an Acquire's.
type Draw struct {
	Process int   `json:"p"`
	Call    int64 `json:"call"`
	Return  int64 `json:"ret"`
	Token   Token `json:"token"`
}

// History is a run.
type History struct {
	Began, Ended int64
	Ops          []Op // by Call
	Draws        []Draw
	Faults       []Fault
	Initial      []Cell // what was seeded
	Final        []Cell // all records of all groups after the end, and the rows of the tables
	FinalRead    bool   // Final was read, all of it; else it is empty
	Leaks        []Leak
	// Direct: no call is sent more than once by itself, as the gateway's client does with commits that have a
	// key. Then a Replayed answer tells that an earlier attempt was applied; else it may be its own.
	Direct bool
}

// Line is one line of a client's standard output: exactly one field is set.
type Line struct {
	Op    *Op    `json:"op,omitempty"`
	Draw  *Draw  `json:"draw,omitempty"`
	Leak  *Leak  `json:"leak,omitempty"`  // after the end
	Ready bool   `json:"ready,omitempty"` // it serves its seats from now on
	Done  bool   `json:"done,omitempty"`  // everything is written down and closed
	Note  string `json:"note,omitempty"`  // for the log: an error at the start
}
