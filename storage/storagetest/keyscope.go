package storagetest

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/storage"
)

// keyPayload: another commit under a key is refused and changes nothing.
func keyPayload(r *run) {
	base := r.resource()
	t, high := r.raised(base+"-b", 5), r.raised(base+"-c", 5)
	in := t.Resource
	r.put(t, "n", "1")
	ops := []storage.Op{
		storage.Put(in, "a", []byte("1")), storage.Add(in, "n", 5, 2), storage.Require(in, "never", 0), storage.Delete(in, "b"),
	}
	then := r.keyed("k", ops, t)
	before := r.image(in, high.Resource)
	changed := func(i int, op storage.Op) []storage.Op {
		other := append([]storage.Op{}, ops...)
		other[i] = op
		return other
	}
	stale := token(in, 4)
	for name, other := range map[string][]storage.Op{
		"value":            changed(0, storage.Put(in, "a", []byte("2"))),
		"empty value":      changed(0, storage.Put(in, "a", nil)),
		"record":           changed(0, storage.Put(in, "a2", []byte("1"))),
		"kind":             changed(0, storage.Delete(in, "a")),
		"delta":            changed(1, storage.Add(in, "n", 6, 2)),
		"minimum":          changed(1, storage.Add(in, "n", 5, 1)),
		"version":          changed(2, storage.Require(in, "never", 1)),
		"order":            {ops[1], ops[0], ops[2], ops[3]},
		"one less":         ops[:3],
		"one more":         append(changed(0, ops[0]), storage.Delete(in, "c")),
		"shifted by names": changed(0, storage.Put(in, "a1", nil)),
	} {
		for _, by := range []fencing.Token{t, stale} {
			r.wantKeyReused(in, "k", other, by)
		}
		if r.Failed() {
			r.Fatalf("another %s under the key", name)
		}
	}
	r.wantKeyReused(in, "k", ops, t, high) // one resource more
	r.wantImage(before, in, high.Resource)
	r.wantReplayed(then, "k", ops, t)

	// No bytes are no bytes, however they are written.
	then = r.keyed("empty", []storage.Op{storage.Put(in, "e", nil)}, t)
	r.wantReplayed(then, "empty", []storage.Op{storage.Put(in, "e", []byte{})}, t)
}

// keyResource: a key belongs to the lowest of the commit's resources.
func keyResource(r *run) {
	base := r.resource()
	a, b, c := r.raised(base+"-a", 3), r.raised(base+"-b", 4), r.raised(base+"-c", 5)
	add := func(tokens ...fencing.Token) []storage.Op {
		var ops []storage.Op
		for _, t := range tokens {
			ops = append(ops, storage.Add(t.Resource, "n", 1, 0))
		}
		return ops
	}
	thenB := r.keyed("k", add(b), b) // b alone
	ops := add(c, b, a)
	then := r.keyed("k", ops, c, a, b) // a's
	r.keyed("k", add(c), c)            // c alone
	r.wantRecord(a.Resource, "n", "1", 1)
	r.wantRecord(b.Resource, "n", "2", 2)
	r.wantRecord(c.Resource, "n", "2", 2)
	for _, order := range [][]fencing.Token{{a, b, c}, {c, b, a}, {b, a, c}} {
		r.wantReplayed(then, "k", ops, order...)
	}
	r.wantReplayed(thenB, "k", add(b), b)
	r.wantKeyReused(a.Resource, "k", add(a), a)
	r.wantKeyReused(b.Resource, "k", add(b, c), c, b)
	b5 := r.raised(b.Resource, 5)
	r.wantReplayed(then, "k", ops, c, b5, a)
	r.wantReplayed(then, "k", ops, c, b, a) // with the one that is stale

	// Keys are no records, and names are not run together.
	r.keyed("n", add(a), a)
	r.wantRecord(a.Resource, "n", "2", 2)
	r.wantAbsent(a.Resource, "k")
	x, y := r.raised(base, 1), r.raised(base+":x", 1)
	r.keyed("x:k", add(x), x)
	r.keyed("k", add(y), y)
	r.wantRecord(y.Resource, "n", "1", 1)
}

// keyNames: keys have the grammar of names. What is refused as no key is neither written nor
// raised.
func keyNames(r *run) {
	t := r.held(5)
	in := t.Resource
	ops := []storage.Op{storage.Add(in, "n", 1, 0)}
	long := strings.Repeat("k", fencing.MaxNameLen)
	for _, key := range []string{
		long + "k", "a/b", "a b", "a\x00", "a\n", "-a", ".", "..", "é", "a%41", "{a}", "a*", "a'--", "a\xff", " ", "\"a\"",
	} {
		_, err := r.tryKeyed(key, ops, token(in, 6)) // would raise a classic store
		r.wantInvalid(err, fmt.Sprintf("the idempotency key %.20q", key))
	}
	r.wantMark(in, markOf(t))
	r.wantAbsent(in, "n")
	names := []string{long, long[:fencing.MaxNameLen-1], "Case", "case", "1", "01", "a_b", "axb", "a:b@c-d"}
	for i, key := range names {
		then := r.keyed(key, ops, t)
		if got := then.Ops[0].Counter; got != int64(i+1) {
			r.Errorf("under %.20q: got the sum %d, want %d", key, got, i+1)
		}
	}
	for _, key := range names {
		res, err := r.tryKeyed(key, ops, t)
		if err != nil || !res.Replayed {
			r.Errorf("under %.20q: got replayed = %t, %v, want true", key, res.Replayed, err)
		}
	}
}

// keyExact: the answer of then has every digit and every operation, and does not hang on records.
func keyExact(r *run) {
	t := r.held(5)
	in := t.Resource
	for i, n := range []int64{
		storage.MaxCounter, -storage.MaxCounter, storage.MaxCounter - 1, 1 << 52, 100000000000001, -99999999999999, 0,
	} {
		ops := []storage.Op{storage.Add(in, fmt.Sprintf("n%d", i), n, storage.NoMinimum)}
		key := fmt.Sprintf("exact-%d", i)
		then := r.keyed(key, ops, t)
		if then.Ops[0].Counter != n {
			r.Errorf("got the sum %d, want %d", then.Ops[0].Counter, n)
		}
		r.wantReplayed(then, key, ops, t)
	}

	large := []storage.Op{storage.Put(in, "large", []byte(strings.Repeat("\x00\xffv", r.h.MaxValue/3)))}
	then := r.keyed("large", large, t)
	r.wantReplayed(then, "large", large, t)
	r.remove(t, "large")
	r.wantReplayed(then, "large", large, t)
	r.wantAbsent(in, "large")

	var many []storage.Op
	for i := range r.h.MaxOps {
		many = append(many, storage.Add(in, fmt.Sprintf("m%05d", i), int64(i)-storage.MaxCounter, storage.NoMinimum))
	}
	then = r.keyed("many", many, t)
	r.wantReplayed(then, "many", many, t)
}

// keyBatch gives the backend one key several times at once.
func keyBatch(r *run) {
	t := r.held(5)
	c := storage.Commit{Tokens: []fencing.Token{t}, Ops: []storage.Op{storage.Add(t.Resource, "n", 1, 0)}, Key: "k"}
	other := storage.Commit{Tokens: c.Tokens, Ops: []storage.Op{storage.Add(t.Resource, "n", 1, 0)}, Key: "other"}
	reused := storage.Commit{Tokens: c.Tokens, Ops: []storage.Op{storage.Put(t.Resource, "n", nil)}, Key: "k"}
	var first int
	for round := range 2 {
		out := r.s.Backend.Apply(r.Context(), []storage.Commit{c, other, c, c})
		for _, i := range []int{0, 2, 3} {
			if out[i].Err != nil || !reflect.DeepEqual(out[i].Result.Ops, out[0].Result.Ops) {
				r.Errorf("commit %d: got %+v, %v, want applied with one answer, %+v", i, out[i].Result, out[i].Err, out[0].Result)
			}
			if !out[i].Result.Replayed {
				first++
			}
		}
		if out[1].Err != nil || out[1].Result.Replayed != (round > 0) {
			r.Errorf("round %d: the neighbour: got replayed = %t, %v", round, out[1].Result.Replayed, out[1].Err)
		}
	}
	if first != 1 {
		r.Errorf("got %d answers that say applied now, want 1", first)
	}
	out := r.s.Backend.Apply(r.Context(), []storage.Commit{reused, other, reused})
	for _, i := range []int{0, 2} {
		r.wantRefused(out[i].Err, storage.RefusedError{Op: storage.NoOp, Resource: t.Resource, Key: "k", Reason: storage.ErrKeyReused})
	}
	if out[1].Err != nil {
		r.Errorf("beside a key that was reused: got %v, want applied", out[1].Err)
	}
	r.wantRecord(t.Resource, "n", "2", 2)
}

// keyRace sends one key from 32 callers at once, some with a token that is stale, while newer
// tokens are raised.
func keyRace(r *run) {
	const callers, rounds = 32, 6
	resource := r.resource()
	for round := range int64(rounds) {
		current := r.raised(resource, 10*round+2)
		tokens := []fencing.Token{token(resource, 10*round+1), current, token(resource, 10*round+3), token(resource, 10*round+4)}
		ops := []storage.Op{storage.Add(resource, "sold", 1, 0), storage.Put(resource, "who", []byte("x"))}
		key := fmt.Sprintf("race-%d", round)
		var mu sync.Mutex // guards answers
		var answers []storage.Result
		r.parallel(callers+2, func(i int) {
			if i >= callers {
				if err := r.s.Fence.Raise(r.Context(), tokens[i-callers+2]); err != nil && !errors.Is(err, fencing.ErrStale) {
					r.Errorf("raise: %v", err)
				}
				return
			}
			res, err := r.untilAnswered(key, ops, tokens[i%len(tokens)])
			switch {
			case err == nil:
				mu.Lock()
				answers = append(answers, res)
				mu.Unlock()
			case !errors.Is(err, fencing.ErrStale):
				r.Errorf("got %v, want an answer, or stale", err)
			}
		})
		// Whoever was refused meanwhile now learns what became of it, if it was applied.
		last, err := r.s.Fence.Mark(r.Context(), resource)
		r.ok(err, "mark")
		for _, t := range append(tokens, fencing.Token{Resource: resource, Number: last.Number, Grant: last.Grant}) {
			if res, err := r.tryKeyed(key, ops, t); err == nil {
				answers = append(answers, res)
			} else if len(answers) > 0 {
				r.Errorf("after an answer: got %v, want the same answer", err)
			}
		}
		var first int
		for _, res := range answers {
			if !res.Replayed {
				first++
			}
			if !reflect.DeepEqual(res.Ops, answers[0].Ops) {
				r.Errorf("got the answers %+v and %+v of one key", res.Ops, answers[0].Ops)
			}
		}
		if first != 1 {
			r.Errorf("got %d of %d answers that say applied now, want 1", first, len(answers))
		}
		r.wantRecord(resource, "sold", string(storage.Counter(round+1)), round+1)
		if r.Failed() {
			return
		}
	}
}

// untilAnswered sends a commit until it is applied or refused.
func (r *run) untilAnswered(key string, ops []storage.Op, t fencing.Token) (storage.Result, error) {
	for deadline := time.Now().Add(patience); ; {
		res, err := r.tryKeyed(key, ops, t)
		if fencing.OutcomeOf(err) != fencing.Failed || time.Now().After(deadline) {
			return res, err
		}
	}
}
