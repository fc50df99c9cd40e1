package lab

import "github.com/fencegate/fencegate/internal/trace"

// What can be locked in a session is coupon and stock: so they are named in commands, events, marks
// and leases. In the gateway's API, and so in exchanges, they are lab:SESSION.coupon and
// lab:SESSION.stock. Their record is left, 10 at the beginning.
const (
	Coupon = "coupon"
	Stock  = "stock"
)

// Mode is under which rules a session runs.
type Mode string

// The modes, in the order in which they build on each other.
const (
	ModeNone   Mode = "none"   // no lock: the clients send no tokens, nothing is checked
	ModeLock   Mode = "lock"   // the lock only: tokens are sent, and the store's check is defeated
	ModeWrites Mode = "writes" // the fence is checked on writes, and hears of a token by its first write
	ModeGrant  Mode = "grant"  // the fence is raised at the grant
)

// About is what the page needs to know of where it is.
type About struct {
	Lock       string      `json:"lock"`
	Store      string      `json:"store"`
	Version    string      `json:"version"`
	Modes      []ModeAbout `json:"modes"`
	Chapters   []Chapter   `json:"chapters"`
	TTLDefault string      `json:"ttl_default"` // Go durations
	TTLLeast   string      `json:"ttl_least"`
	TTLMost    string      `json:"ttl_most"`
	Flush      bool        `json:"flush"` // whether the configured lock store can be made to forget a resource
}

// ModeAbout is a mode for people.
type ModeAbout struct {
	Mode  Mode   `json:"mode"`
	Title string `json:"title"`
	Text  string `json:"text"`
}

// NewSession is the body that begins a session.
type NewSession struct {
	Mode Mode   `json:"mode"`
	TTL  string `json:"ttl,omitempty"`  // the clients' lease time; default About.TTLDefault
	Lock string `json:"lock,omitempty"` // "" the configured one; "nodes": three small lock nodes in this process, the naive Redlock
}

// Command is one thing to be done. Who acts is A, B or operator.
type Command struct {
	Actor  string `json:"actor"`
	Action Action `json:"action"`
	// Resource is coupon (the default) or stock, a second resource with a lock and a token of its own.
	Resource string `json:"resource,omitempty"`
	Value    string `json:"value,omitempty"`  // of write: default what was read, less one
	Number   string `json:"number,omitempty"` // of evict and forge; default the holder's number
	Key      string `json:"key,omitempty"`    // of add and commit: an idempotency key
	Node     int    `json:"node,omitempty"`   // of forget-node: 1, 2 or 3
}

// Action is what a command does.
type Action string

// What A and B do. An action of a paused client is parked until it is resumed, in order.
const (
	Acquire   Action = "acquire"    // take the lock of the resource, waiting for it
	Reenter   Action = "reenter"    // ask for it again with the same grant: the same token comes back
	Read      Action = "read"       // read the record left, inside the fence where there is one
	Check     Action = "check"      // look whether the lease is still trusted
	Write     Action = "write"      // hand out one coupon: write left = what was read, less one
	Receipt   Action = "receipt"    // the task's second write: put the receipt of the coupon handed out
	Commit    Action = "commit"     // both of them in one commit
	Pair      Action = "pair"       // one commit over coupon and stock, with both tokens: one coupon, one piece of stock
	Add       Action = "add"        // a commit that adds -1 to left, not below 0, with Key where it is given
	AddFree   Action = "add-free"   // the same in one call that takes the lock itself: no lock is held between calls
	Retry     Action = "retry"      // send the last write, add or commit again, byte for byte
	Renew     Action = "renew"      // extend the lease
	Release   Action = "release"    // retire the token and give the lock back
	Forge     Action = "forge"      // write with a made-up token: Number (default the mark's) and a grant of its own
	LoseReply Action = "lose-reply" // the response of the client's next request is thrown away
	Pause     Action = "pause"      // stop the client between two requests, its renewals too
	Resume    Action = "resume"     // let it go on
)

// What the operator does to the session's resources.
const (
	Expire Action = "expire" // the hold's time is up now
	Flush  Action = "flush"  // the lock store forgets the resource: hold and counter
	Evict  Action = "evict"  // end a token without its holder: in the store first, then in the lock
	// ForgetNode: one of the three nodes (default 1) forgets everything, as after a restart without a disk.
	// A grant is on the first two nodes that are free, in their order: A's usually on 1 and 2.
	ForgetNode Action = "forget-node"
	// Wait lets one lease time pass: the remedy that is none. It takes 2 s at most: where the TTL is
	// longer, the rest of it is made up by ending the holds of paused clients.
	Wait Action = "wait"
)

// Done is how far a command has come when it is answered.
type Done struct {
	Status string       `json:"status"`          // done; waiting: for the lock; parked: the client is paused
	Event  *trace.Event `json:"event,omitempty"` // of a command that is done
	State  State        `json:"state"`
	// Resumed is, of a resume, what became of the actions that were parked, in their order.
	Resumed []trace.Event `json:"resumed,omitempty"`
}

// State is how a session stands.
type State struct {
	ID      string        `json:"id"`
	Mode    Mode          `json:"mode"`
	Lock    string        `json:"lock,omitempty"` // as in NewSession
	NowMS   int64         `json:"now_ms"`         // on the clock of the events
	TTLMS   int64         `json:"ttl_ms"`
	Clients []Client      `json:"clients"`
	Marks   []trace.Mark  `json:"marks"`
	Account trace.Account `json:"account"`
	Stock   string        `json:"stock,omitempty"` // what is left of the second resource, once it was used
	Damage  []string      `json:"damage"`          // every lost update and half-done task so far
	Seq     int           `json:"seq"`             // of the newest event
	EndsMS  int64         `json:"ends_ms"`         // when the session is forgotten if nothing happens
}

// Client is how a client stands.
type Client struct {
	Name   string  `json:"name"`
	Paused bool    `json:"paused"`
	Busy   string  `json:"busy,omitempty"` // the action under way: a wait for the lock
	Parked int     `json:"parked"`         // actions that wait for resume
	Leases []Lease `json:"leases"`
	Read   string  `json:"read,omitempty"` // what it has read of left, and computes with
}

// Lease is what a client believes to hold.
type Lease struct {
	Resource string `json:"resource"`
	Number   string `json:"number"`
	FromMS   int64  `json:"from_ms"`
	UntilMS  int64  `json:"until_ms"` // the client's own deadline, after which it should not trust the lease
}
