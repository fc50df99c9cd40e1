package storage

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"slices"
)

// Answer is an idempotency record: what a commit with a key was answered, so that the same
// commit, sent again because its answer was lost, is answered the same and not applied twice.
// It is written by the commit itself, in its atomic step.
type Answer struct {
	Fingerprint Fingerprint
	// Number is that of the token of the key's resource when the answer was given. While that
	// token is the mark, its holder may still ask again: the record stays, however old it is.
	Number  int64
	Result  Result
	Refused *RefusedError // what the data said; nil if the commit was applied
}

// Fingerprint tells commits apart: SHA-256 of the resources and operations, never of the
// tokens, for a retry may come under a later one.
type Fingerprint [sha256.Size]byte

// KeyID names the record of the commit's idempotency key. A key belongs to the lowest of the
// commit's resources. ok is false if the commit has no key.
func (c Commit) KeyID() (id RecordID, ok bool) {
	if c.Key == "" || len(c.Tokens) == 0 {
		return RecordID{}, false
	}
	lowest := c.Tokens[0].Resource
	for _, t := range c.Tokens {
		lowest = min(lowest, t.Resource)
	}
	return RecordID{lowest, c.Key}, true
}

// Fingerprint returns the commit's; a Store makes it when it admits a commit, before anything is
// locked, and a backend that changes one must make a new Commit. Operations in another order are another commit: its answer
// would be in that order.
func (c Commit) Fingerprint() Fingerprint {
	if c.fingerprint != nil {
		return *c.fingerprint
	}
	h := sha256.New()
	resources := make([]string, 0, len(c.Tokens))
	for _, t := range c.Tokens {
		resources = append(resources, t.Resource)
	}
	slices.Sort(resources)
	number(h, int64(len(resources)))
	for _, r := range resources {
		field(h, r)
	}
	for _, op := range c.Ops {
		field(h, op.Kind)
		field(h, op.Resource)
		field(h, op.Key)
		field(h, op.Value)
		number(h, op.Delta)
		number(h, op.Min)
		number(h, op.Version)
	}
	return Fingerprint(h.Sum(nil))
}

func field[T ~string | ~[]byte](h hash.Hash, s T) {
	number(h, int64(len(s)))
	h.Write([]byte(s))
}

func number(h hash.Hash, n int64) {
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(n))) //nolint:gosec // bits are bits
}

// recall answers a commit whose key has a record.
func recall(c Commit, a Answer) (Result, error) {
	if a.Fingerprint != c.Fingerprint() || a.Refused == nil && len(a.Result.Ops) != len(c.Ops) {
		id, _ := c.KeyID()
		return Result{}, &RefusedError{Op: NoOp, Resource: id.Resource, Key: id.Key, Reason: ErrKeyReused}
	}
	if a.Refused != nil {
		return Result{}, a.Refused
	}
	a.Result.Replayed = true
	return a.Result, nil
}

// record makes the answer that a judged commit leaves under its key. What the fence refused
// leaves none: under another token, or after the raise, the same commit may be applied.
func record(c Commit, number int64, res Result, err error) *Answer {
	a := &Answer{Fingerprint: c.Fingerprint(), Number: number, Result: res}
	if err != nil && !errors.As(err, &a.Refused) {
		return nil
	}
	return a
}

// answerText is the stored form of an Answer's outcome.
type answerText struct {
	Ops     [][2]int64   `json:"ops,omitempty"` // version and counter of each operation
	Refused *refusalText `json:"refused,omitempty"`
}

type refusalText struct {
	Op       int    `json:"op"`
	Resource string `json:"resource"`
	Key      string `json:"key"`
	Reason   string `json:"reason"`
	Have     int64  `json:"have"`
	Want     int64  `json:"want"`
}

// reasons names what the data can say no with. The names are stored: never change one.
var reasons = map[string]error{
	"version": ErrVersionMismatch,
	"minimum": ErrBelowMinimum,
	"counter": ErrNotCounter,
	"range":   ErrCounterRange,
}

// Text returns the outcome of the answer as a backend stores it, beside the fingerprint and
// the number.
func (a Answer) Text() []byte {
	var t answerText
	for _, op := range a.Result.Ops {
		t.Ops = append(t.Ops, [2]int64{op.Version, op.Counter})
	}
	if r := a.Refused; r != nil {
		t.Refused = &refusalText{Op: r.Op, Resource: r.Resource, Key: r.Key, Have: r.Have, Want: r.Want}
		for name, reason := range reasons {
			if errors.Is(r.Reason, reason) {
				t.Refused.Reason = name
			}
		}
	}
	text, err := json.Marshal(t)
	if err != nil {
		panic(err) // integers and strings only
	}
	return text
}

// ParseAnswer reads what Text wrote.
func ParseAnswer(f Fingerprint, number int64, text []byte) (Answer, error) {
	a := Answer{Fingerprint: f, Number: number}
	var t answerText
	if err := json.Unmarshal(text, &t); err != nil {
		return a, fmt.Errorf("read an idempotency record: %w", err)
	}
	for _, op := range t.Ops {
		a.Result.Ops = append(a.Result.Ops, OpResult{Version: op[0], Counter: op[1]})
	}
	if r := t.Refused; r != nil {
		reason, ok := reasons[r.Reason]
		if !ok {
			return a, fmt.Errorf("read an idempotency record: it has the reason %q", r.Reason)
		}
		a.Refused = &RefusedError{Op: r.Op, Resource: r.Resource, Key: r.Key, Reason: reason, Have: r.Have, Want: r.Want}
	}
	return a, nil
}
