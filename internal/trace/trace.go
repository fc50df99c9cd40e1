// Package trace is a recorded run of clients, a lock and a store: what the demo writes, what the
// lab streams, lets download and takes in again, and what diagrams are drawn from. It is JSON, and
// numbers, versions and counters are strings in it, as everywhere in the API.
package trace

// Format and Version are what a file of this format says of itself.
const (
	Format  = "fencegate-trace"
	Version = 1
)

// File is a file of one or more runs.
type File struct {
	Format  string `json:"format"` // Format
	Version int    `json:"version"`
	Source  string `json:"source"` // who recorded it: "demo" or "lab"
	Lock    string `json:"lock"`   // the kinds of lock and store
	Store   string `json:"store"`
	Runs    []Run  `json:"runs"`
}

// Run is one telling.
type Run struct {
	Name    string  `json:"name"`  // fence, gap-grant, or a chapter's
	Title   string  `json:"title"` // for people
	Mode    string  `json:"mode"`  // one of the lab's modes
	Moral   string  `json:"moral,omitempty"`
	Account Account `json:"account"`
	Events  []Event `json:"events"`
}

// Account is whether every coupon is accounted for: handed out + remaining = initial.
type Account struct {
	Initial   string `json:"initial"`
	HandedOut string `json:"handed_out"` // by accepted writes
	Remaining string `json:"remaining"`  // as the store has it
	Held      bool   `json:"held"`
	Text      string `json:"text"` // "all accounted for", "1 too many", "2 vanished"
}

// Event is one thing that happened.
type Event struct {
	Seq    int    `json:"seq"`     // 1, 2, … within the run, in the order in which they ended
	AtMS   int64  `json:"at_ms"`   // when it began, since the beginning of the run
	DoneMS int64  `json:"done_ms"` // when it was answered
	Actor  string `json:"actor"`   // A, B, lock, store or operator: who did it
	To     string `json:"to,omitempty"`
	Action string `json:"action"`
	// What it was about.
	Resource string `json:"resource,omitempty"`
	Key      string `json:"key,omitempty"`    // of a record
	Number   string `json:"number,omitempty"` // of the token that was granted or sent
	Value    string `json:"value,omitempty"`  // what was read or written
	// What came of it: granted, waiting, accepted, refused, failed, unknown, ok, lost.
	Outcome string `json:"outcome"`
	Reason  string `json:"reason,omitempty"`   // why it was refused: superseded, retired, duplicate, …
	Highest string `json:"highest,omitempty"`  // the store's number by which it was refused
	Text    string `json:"text"`               // one plain sentence for people
	Damage  string `json:"damage,omitempty"`   // what was lost by it: "an update was lost: …"
	LeaseMS int64  `json:"lease_ms,omitempty"` // of a grant and a renewal: how long it is trusted, from AtMS on
	Marks   []Mark `json:"marks,omitempty"`    // the store's marks after it, where they are known to have changed

	Exchanges []Exchange `json:"exchanges,omitempty"` // the requests that it took, exactly
	Source    *Source    `json:"source,omitempty"`    // what decided
}

// Mark is a store's, without the grant.
type Mark struct {
	Resource string `json:"resource"`
	Number   string `json:"number"`
	Retired  bool   `json:"retired"`
}

// Exchange is one HTTP request and its response. Header lines are "Name: value".
type Exchange struct {
	Method  string   `json:"method"`
	URL     string   `json:"url"`
	Headers []string `json:"headers,omitempty"`
	Body    string   `json:"body,omitempty"`
	Status  int      `json:"status"` // 0: no response came
	Replied []string `json:"reply_headers,omitempty"`
	Reply   string   `json:"reply,omitempty"`
	Lost    bool     `json:"lost,omitempty"` // the response was thrown away on its way, on purpose
	Curl    string   `json:"curl"`           // a command that sends the same request
}

// Source is the statement or script by which a lock or a store decided.
type Source struct {
	Language string `json:"language"` // lua, sql or go
	Name     string `json:"name"`     // of the file
	Text     string `json:"text"`
}
