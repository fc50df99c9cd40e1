package storage

import (
	"github.com/fencegate/fencegate/fencing"
)

// Commit is one atomic set of operations. Every resource that is touched needs its
// token; a token whose resource no operation touches makes the commit depend on it.
type Commit struct {
	Tokens []fencing.Token // one per resource, in any order
	Ops    []Op            // at least one; each record is changed at most once; values of MaxCommit bytes in all
	// Key makes the commit safe to send again, with a later token too: under one key it is
	// applied at most once, and sent again it is answered as it was the first time, by the
	// data's refusals also. It has the grammar of a record's key, and belongs to the lowest of
	// the commit's resources; another commit under it is refused with [ErrKeyReused]. The
	// answer is kept for the backend's retention, and for as long as its token is the mark.
	// Empty: no such record is kept. Whoever may send a key learns what was answered under
	// it, so they must be allowed to work on every resource of the commit.
	Key string

	fingerprint *Fingerprint // of a commit with a key that a Store has admitted: made before anything is locked
}

// Kind names an operation. The values are part of the wire format.
type Kind string

// The kinds of operations.
const (
	KindPut     Kind = "put"
	KindDelete  Kind = "delete"
	KindAdd     Kind = "add"
	KindRequire Kind = "require"
)

// Op is one operation on one record. Make it with [Put], [Delete], [Add] or [Require].
type Op struct {
	Kind     Kind
	Resource string
	Key      string
	Value    []byte // KindPut
	Delta    int64  // KindAdd
	Min      int64  // KindAdd
	Version  int64  // KindRequire
}

// MaxCommit is how large the values of one commit may be together, in bytes: it is one message
// to a server, and held in memory while others wait for its marks.
const MaxCommit = 256 << 20

// MaxCounter bounds counters, deltas and minimums: -MaxCounter..MaxCounter. It is what
// JSON readers and Lua carry without loss.
const MaxCounter = fencing.MaxNumber

// NoMinimum as the min of [Add] lets a counter go as low as it can.
const NoMinimum = -MaxCounter

// Put sets a record's value. The value is any bytes, empty too; it is not copied.
func Put(resource, key string, value []byte) Op {
	return Op{Kind: KindPut, Resource: resource, Key: key, Value: value}
}

// Delete removes a record; one that is not there stays so.
func Delete(resource, key string) Op {
	return Op{Kind: KindDelete, Resource: resource, Key: key}
}

// Add adds delta to a counter: a record whose value is an integer in decimal text, as
// Add and [Counter] write it. A record that is not there counts as 0. The commit is
// refused with [ErrBelowMinimum] if the sum is below min, with [ErrNotCounter] if the
// value is no such integer, and with [ErrCounterRange] if the sum leaves
// -MaxCounter..MaxCounter.
func Add(resource, key string, delta, minimum int64) Op {
	return Op{Kind: KindAdd, Resource: resource, Key: key, Delta: delta, Min: minimum}
}

// Require refuses the commit with [ErrVersionMismatch] unless the record has this
// version before the commit; 0 requires that there is no record.
func Require(resource, key string, version int64) Op {
	return Op{Kind: KindRequire, Resource: resource, Key: key, Version: version}
}

// RecordID names a record.
type RecordID struct {
	Resource string
	Key      string
}

// ID returns the record that the operation is about.
func (o Op) ID() RecordID { return RecordID{o.Resource, o.Key} }

// Changes reports whether the operation writes.
func (o Op) Changes() bool { return o.Kind != KindRequire }

// Record is a value under a resource.
type Record struct {
	Resource string
	Key      string
	Value    []byte
	Version  int64 // 1 or more; grows by every change
}

// Result is what an applied commit did.
type Result struct {
	Ops []OpResult // one per operation, in the commit's order
	// Replayed says that the commit had been applied before, under the same key, and that
	// this is the answer of then.
	Replayed bool
}

// OpResult is what one operation did.
type OpResult struct {
	Version int64 // the record's version after the commit; 0 if there is none
	Counter int64 // KindAdd: the sum
}

// Outcome is a backend's answer to one commit of a batch: a Result, or the error that
// says what became of it.
type Outcome struct {
	Result Result
	Err    error
}
