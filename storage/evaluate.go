package storage

import (
	"maps"
	"slices"
	"strconv"

	"github.com/fencegate/fencegate/fencing"
)

// View is what a commit is judged against. The backend reads it inside the commit's
// atomic step, the marks locked before the records are read.
type View struct {
	// Marks has the mark of every token's resource, retired if it is of another
	// incarnation; where there is none, fencing.Absent of the store's floor.
	Marks map[string]fencing.Mark
	// Bases has, per resource, the highest version of its deleted records: new records
	// begin above it, so that no version comes twice.
	Bases map[string]int64
	// Records has the records that the operations name and that exist.
	Records map[RecordID]Record
	// Answer is the record of the commit's idempotency key, looked up behind the locks of
	// the marks; nil if there is none, or no key.
	Answer *Answer
}

// Changes is what a judged commit writes: an accepted one, or one with a key that the data
// refused, which writes its answer only.
type Changes struct {
	Put     []Record
	Deleted []RecordID
	Bases   map[string]int64 // resources whose base rises, with the new base
	Answer  *Answer          // to be kept under Commit.KeyID; nil for none
}

// Apply brings the view's Bases and Records to what an accepted commit leaves, so that the next
// commit of the same atomic step can be judged by them. The maps themselves change.
func (v View) Apply(ch Changes) {
	for _, rec := range ch.Put {
		v.Records[RecordID{rec.Resource, rec.Key}] = rec
	}
	for _, id := range ch.Deleted {
		delete(v.Records, id)
	}
	maps.Copy(v.Bases, ch.Bases)
}

// Evaluate judges a commit: the record of its idempotency key first, for a holder must not be
// told "refused" of what was applied; then the fence, for each token in order; then the
// operations, each against the view and not against its neighbours (a record is changed
// at most once). It is a pure function, the one meaning of a commit that every backend is
// measured by. The error is a [*fencing.StaleError] or a [*RefusedError]; with it there can be
// an Answer to write.
func Evaluate(c Commit, v View) (Result, Changes, error) {
	if v.Answer != nil {
		res, err := recall(c, *v.Answer)
		return res, Changes{}, err
	}
	res, ch, err := judge(c, v)
	if id, ok := c.KeyID(); ok {
		ch.Answer = record(c, v.Marks[id.Resource].Number, res, err)
	}
	return res, ch, err
}

func judge(c Commit, v View) (Result, Changes, error) {
	for _, t := range c.Tokens {
		if err := v.Marks[t.Resource].Current(t); err != nil {
			return Result{}, Changes{}, err
		}
	}
	var bases map[string]int64 // of what is deleted
	ch := Changes{}
	res := Result{Ops: make([]OpResult, len(c.Ops))}
	for i, op := range c.Ops {
		rec, exists := v.Records[op.ID()]
		base := v.Bases[op.Resource]
		if op.Kind == KindRequire {
			if rec.Version != op.Version {
				return Result{}, Changes{}, refused(i, op, ErrVersionMismatch, rec.Version, op.Version)
			}
			continue
		}
		if op.Kind == KindDelete {
			if exists {
				ch.Deleted = append(ch.Deleted, op.ID())
				if bases == nil {
					bases = map[string]int64{}
				}
				bases[op.Resource] = max(bases[op.Resource], base, rec.Version)
			}
			continue
		}
		next := Record{Resource: op.Resource, Key: op.Key, Value: op.Value, Version: rec.Version + 1}
		if !exists {
			next.Version = base + 1
		}
		if op.Kind == KindAdd {
			sum, err := add(i, op, rec, exists)
			if err != nil {
				return Result{}, Changes{}, err
			}
			res.Ops[i].Counter = sum
			next.Value = Counter(sum)
		}
		res.Ops[i].Version = next.Version
		ch.Put = append(ch.Put, next)
	}
	for resource, base := range bases {
		if base > v.Bases[resource] {
			if ch.Bases == nil {
				ch.Bases = map[string]int64{}
			}
			ch.Bases[resource] = base
		}
	}
	fillRequires(c, v, ch, &res)
	return res, ch, nil
}

// fillRequires reports, for every Require, the version that its record has after the
// commit: that of a change beside it, else the one it required.
func fillRequires(c Commit, v View, ch Changes, res *Result) {
	if !slices.ContainsFunc(c.Ops, func(op Op) bool { return !op.Changes() }) {
		return
	}
	after := map[RecordID]int64{}
	for _, rec := range ch.Put {
		after[RecordID{rec.Resource, rec.Key}] = rec.Version
	}
	for _, id := range ch.Deleted {
		after[id] = 0
	}
	for i, op := range c.Ops {
		if op.Changes() {
			continue
		}
		version, changed := after[op.ID()]
		if !changed {
			version = v.Records[op.ID()].Version
		}
		res.Ops[i].Version = version
	}
}

func add(i int, op Op, rec Record, exists bool) (int64, error) {
	var have int64
	if exists {
		var ok bool
		if have, ok = ParseCounter(rec.Value); !ok {
			return 0, refused(i, op, ErrNotCounter, 0, 0)
		}
	}
	sum := have + op.Delta // both within 2^53: no overflow
	switch {
	case sum < -MaxCounter || sum > MaxCounter:
		return 0, refused(i, op, ErrCounterRange, have, 0)
	case sum < op.Min:
		return 0, refused(i, op, ErrBelowMinimum, have, op.Min)
	}
	return sum, nil
}

func refused(i int, op Op, reason error, have, want int64) error {
	return &RefusedError{Op: i, Resource: op.Resource, Key: op.Key, Reason: reason, Have: have, Want: want}
}

// Counter returns the value of a record that counts n.
func Counter(n int64) []byte { return strconv.AppendInt(nil, n, 10) }

// ParseCounter reads a counter's value: an integer in -MaxCounter..MaxCounter as
// [Counter] writes it, without plus sign, leading zeros or "-0", so that one number has
// one text in every backend.
func ParseCounter(value []byte) (n int64, ok bool) {
	if len(value) == 0 || len(value) > 17 {
		return 0, false
	}
	n, err := strconv.ParseInt(string(value), 10, 64)
	if err != nil || n < -MaxCounter || n > MaxCounter || string(Counter(n)) != string(value) {
		return 0, false
	}
	return n, true
}
