package wire

import (
	"fmt"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/storage"
)

// The headers of the protocol.
const (
	HeaderToken = "Fencing-Token" // requests: a token's text form; a secret
	HeaderMark  = "Fencing-Mark"  // responses: the number of the resource's mark, where it is known
	// HeaderKey, on requests, is a commit's idempotency key, bare or in double quotes (the IETF
	// draft's form).
	HeaderKey = "Idempotency-Key"
	// HeaderReplayed, on responses, is "true" where the commit had been applied before under
	// its key.
	HeaderReplayed = "Idempotency-Replayed"
	// HeaderRequest names a request in the gateway's log. A client may choose it: 1 to 64 of
	// A-Z a-z 0-9 . _ -; what does not fit, or could be a grant id, is replaced.
	HeaderRequest = "X-Request-Id"
)

// The content types of bodies.
const (
	TypeJSON    = "application/json"
	TypeProblem = "application/problem+json"
	TypeRecord  = "application/octet-stream"
)

// LockRequest asks for a lock: POST /v1/resources/{r}/lock.
type LockRequest struct {
	TTL   *Duration `json:"ttl,omitempty"`   // default locking.DefaultTTL
	Wait  *Duration `json:"wait,omitempty"`  // default 0
	Label string    `json:"label,omitempty"` // shown to everybody
	Grant string    `json:"grant,omitempty"` // a secret; default: the gateway makes one
}

// LockReply is a grant, the one reply that contains a token.
type LockReply struct {
	Token  string `json:"token"` // the text form; a secret
	Number Int    `json:"number"`
	// ExpiresIn is what remained of the hold when the reply was written.
	ExpiresIn Duration `json:"expires_in"`
	// Waited runs from the request's arrival to just before the call that set the expiry.
	Waited Duration `json:"waited"`
}

// RenewRequest extends one hold: PATCH /v1/resources/{r}/lock.
type RenewRequest struct {
	TTL *Duration `json:"ttl,omitempty"`
}

// RenewReply says how long the hold lasts at least, as of the reply.
type RenewReply struct {
	Number    Int      `json:"number"`
	ExpiresIn Duration `json:"expires_in"`
}

// Token is a token with its resource; a secret.
type Token struct {
	Resource string `json:"resource"`
	Token    string `json:"token"`
}

// FromTokens prepares tokens for sending.
func FromTokens(tokens []fencing.Token) []Token {
	out := make([]Token, len(tokens))
	for i, t := range tokens {
		out[i] = Token{t.Resource, t.Text()}
	}
	return out
}

// ParseTokens reads tokens.
func ParseTokens(in []Token) ([]fencing.Token, error) {
	out := make([]fencing.Token, len(in))
	for i, t := range in {
		var err error
		if out[i], err = fencing.ParseToken(t.Resource, t.Token); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// RenewAllRequest extends several holds: POST /v1/locks/renew.
type RenewAllRequest struct {
	TTL    *Duration `json:"ttl,omitempty"`
	Tokens []Token   `json:"tokens"`
}

// RenewAllReply has one result per token, in order.
type RenewAllReply struct {
	ExpiresIn Duration      `json:"expires_in"` // of the holds that were renewed
	Results   []RenewResult `json:"results"`
}

// RenewResult is the verdict on one token: no Problem if its hold was renewed.
type RenewResult struct {
	Resource string   `json:"resource"`
	Number   Int      `json:"number"`
	Problem  *Problem `json:"problem,omitempty"`
}

// ReleaseReply answers DELETE /v1/resources/{r}/lock.
type ReleaseReply struct {
	Released bool `json:"released"` // false: the hold had ended before
}

// EvictRequest is POST /v1/resources/{r}/lock/evict.
type EvictRequest struct {
	Number *Int   `json:"number"`
	Reason string `json:"reason,omitempty"`
}

// LockStatus answers GET /v1/resources/{r}/lock.
type LockStatus struct {
	Resource  string   `json:"resource"`
	Number    Int      `json:"number"`
	Held      bool     `json:"held"`
	Label     string   `json:"label,omitempty"`
	Remaining Duration `json:"remaining"`
	Waiters   int      `json:"waiters"`
}

// FromStatus prepares a status for sending. What could be a secret in its label is hidden.
func FromStatus(s locking.Status) LockStatus {
	return LockStatus{s.Resource, Int(s.Number), s.Held, Redact(s.Label), Duration(s.Remaining), s.Waiters}
}

// Status is the way back.
func (s LockStatus) Status() locking.Status {
	return locking.Status{
		Resource: s.Resource, Number: int64(s.Number), Held: s.Held, Label: s.Label,
		Remaining: time.Duration(s.Remaining), Waiters: s.Waiters,
	}
}

// LockList answers GET /v1/locks. Where Next is not empty there may be more: ask again
// with it as after.
type LockList struct {
	Locks []LockStatus `json:"locks"`
	Next  string       `json:"next,omitempty"`
}

// Record is a record in a list.
type Record struct {
	Key     string `json:"key"`
	Value   Bytes  `json:"value"`
	Version Int    `json:"version"`
}

// RecordList answers GET /v1/resources/{r}/records. It may hold fewer records than
// were asked for: where Next is not empty there may be more.
type RecordList struct {
	Records []Record `json:"records"`
	Next    string   `json:"next,omitempty"`
}

// Commit is POST /v1/commits. Its idempotency key is a header. It has either tokens, one for each
// resource that it touches, or lock.
type Commit struct {
	Tokens []Token     `json:"tokens,omitempty"`
	Lock   *CommitLock `json:"lock,omitempty"`
	Ops    []Op        `json:"ops"`
}

// CommitLock asks the gateway to take the locks of a commit's resources itself, and to free them
// after it.
type CommitLock struct {
	Wait  *Duration `json:"wait,omitempty"`  // for all the locks together; default 0
	Label string    `json:"label,omitempty"` // shown to everybody
}

// Event is the data of one event of GET /v1/events; the event's kind is its SSE event type, too.
type Event struct {
	Time     time.Time         `json:"time"`
	Kind     fencing.EventKind `json:"kind"`
	Attempt  fencing.EventKind `json:"attempt,omitempty"` // what was refused, failed, or is unknown
	Resource string            `json:"resource,omitempty"`
	Number   Int               `json:"number"`
	Highest  *Int              `json:"highest,omitempty"`
	Reason   string            `json:"reason,omitempty"`
	Label    string            `json:"label,omitempty"`
	Elapsed  *Duration         `json:"elapsed,omitempty"`
}

// KindGap is the SSE event type of a [Gap].
const KindGap = "gap"

// Gap stands in the stream of GET /v1/events for events that were missed: the gateway remembers
// only the last ones, and each gateway, and each run of it, has its own.
type Gap struct {
	Missed *Int `json:"missed,omitempty"` // how many, of all kinds and resources, where it is known
}

// Ready answers GET /readyz?verbose.
type Ready struct {
	Status string  `json:"status"` // ok, unready or draining
	Checks []Check `json:"checks"`
}

// Check is what was found of one thing that the gateway needs.
type Check struct {
	Name     string   `json:"name"`
	OK       bool     `json:"ok"`
	Error    string   `json:"error,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
	Details  []string `json:"details,omitempty"`
}

// Op is one operation. Which members it has hangs on its kind: put has value; add has
// delta and may have min; require has version; delete has none.
type Op struct {
	Kind     storage.Kind `json:"kind"`
	Resource string       `json:"resource"`
	Key      string       `json:"key"`
	Value    *Bytes       `json:"value,omitempty"`
	Delta    *Int         `json:"delta,omitempty"`
	Min      *Int         `json:"min,omitempty"` // default: no minimum
	Version  *Int         `json:"version,omitempty"`
}

// FromOp prepares an operation for sending.
func FromOp(op storage.Op) Op {
	out := Op{Kind: op.Kind, Resource: op.Resource, Key: op.Key}
	switch op.Kind {
	case storage.KindPut:
		v := Bytes(op.Value)
		out.Value = &v
	case storage.KindAdd:
		out.Delta, out.Min = Ptr(op.Delta), Ptr(op.Min)
	case storage.KindRequire:
		out.Version = Ptr(op.Version)
	}
	return out
}

// Op is the way back. A missing or superfluous member is a [*fencing.InvalidError];
// names and ranges are the store's to judge.
func (o Op) Op() (storage.Op, error) {
	fits := false
	op := storage.Op{Kind: o.Kind, Resource: o.Resource, Key: o.Key}
	switch o.Kind {
	case storage.KindPut:
		if fits = o.Value != nil && o.Delta == nil && o.Min == nil && o.Version == nil; fits {
			op.Value = *o.Value
		}
	case storage.KindDelete:
		fits = o.Value == nil && o.Delta == nil && o.Min == nil && o.Version == nil
	case storage.KindAdd:
		if fits = o.Delta != nil && o.Value == nil && o.Version == nil; fits {
			op.Delta, op.Min = int64(*o.Delta), storage.NoMinimum
			if o.Min != nil {
				op.Min = int64(*o.Min)
			}
		}
	case storage.KindRequire:
		if fits = o.Version != nil && o.Value == nil && o.Delta == nil && o.Min == nil; fits {
			op.Version = int64(*o.Version)
		}
	}
	if !fits {
		return op, &fencing.InvalidError{
			What:    "operation",
			Allowed: "kind put with value, delete, add with delta and perhaps min, or require with version",
		}
	}
	return op, nil
}

// CommitReply has one result per operation, in order.
type CommitReply struct {
	Results []OpResult `json:"results"`
}

// OpResult is what one operation did.
type OpResult struct {
	Version Int  `json:"version"`           // after the commit; "0" if there is no record
	Counter *Int `json:"counter,omitempty"` // add: the sum
}

// FromResult prepares the result of a commit of ops for sending.
func FromResult(ops []storage.Op, r storage.Result) CommitReply {
	out := CommitReply{Results: make([]OpResult, len(r.Ops))}
	for i, res := range r.Ops {
		out.Results[i].Version = Int(res.Version)
		if ops[i].Kind == storage.KindAdd {
			out.Results[i].Counter = Ptr(res.Counter)
		}
	}
	return out
}

// Result is the way back; want is how many operations were sent.
func (r CommitReply) Result(want int) (storage.Result, error) {
	if len(r.Results) != want {
		return storage.Result{}, fmt.Errorf("the reply has %d results for %d operations", len(r.Results), want)
	}
	out := storage.Result{Ops: make([]storage.OpResult, want)}
	for i, res := range r.Results {
		out.Ops[i].Version = int64(res.Version)
		if res.Counter != nil {
			out.Ops[i].Counter = int64(*res.Counter)
		}
	}
	return out, nil
}

// Fence answers GET /v1/resources/{r}/fence.
type Fence struct {
	Number  Int   `json:"number"`
	Retired bool  `json:"retired"`
	Current *bool `json:"current,omitempty"` // where a token was sent: it is the mark; advice, old on arrival
}

// RaiseRequest is POST /v1/resources/{r}/fence.
type RaiseRequest struct {
	Raise string `json:"raise"` // a token's text form; a secret if it has a grant id
}
