package storage_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/storage"
	"github.com/fencegate/fencegate/storage/memstore"
)

// TestEvaluateProperty runs random commits on Evaluate and on a naive model of its own, which knows
// the rules as sentences and shares no code with it: verdicts and everything that is kept must be the
// same.
func TestEvaluateProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		s := &evaluated{marks: map[string]fencing.Mark{}, bases: map[string]int64{}, records: map[storage.RecordID]storage.Record{}, answers: map[storage.RecordID]storage.Answer{}}
		compare(rt, s, newNaive("as it is"))
	})
}

// TestStoreProperty does the same with a Store of each mode, over a backend.
func TestStoreProperty(t *testing.T) {
	t.Parallel()
	for _, mode := range []fencing.Mode{fencing.Strict, fencing.Classic} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(rt *rapid.T) {
				s, err := storage.New(memstore.New(nil), &storage.Options{Mode: mode})
				if err != nil {
					rt.Fatal(err)
				}
				compare(rt, s, newNaive(mode.String()))
			})
		})
	}
}

// subject is what is compared with the model.
type subject interface {
	Commit(ctx context.Context, c storage.Commit) (storage.Result, error)
	Raise(ctx context.Context, t fencing.Token) error
	Retire(ctx context.Context, t fencing.Token) error
	Get(ctx context.Context, resource, key string) (storage.Record, error)
}

var (
	propertyResources = []string{"a", "b"}
	propertyKeys      = []string{"x", "y", "z"}
)

// compare draws steps and performs them on both.
func compare(rt *rapid.T, s subject, n *naive) {
	ctx := context.Background()
	for _, r := range propertyResources {
		t := fencing.Token{Resource: r, Number: 1, Grant: grantB}
		if got, want := text(s.Raise(ctx, t)), n.raise(t); got != want {
			rt.Fatalf("raise %v: got %q, want %q", t, got, want)
		}
	}
	var sent []storage.Commit
	for i := range rapid.IntRange(10, 60).Draw(rt, "steps") {
		switch rapid.SampledFrom([]string{"commit", "commit", "commit", "commit", "commit", "raise", "raise", "retire"}).Draw(rt, "do") {
		case "raise":
			t := n.drawToken(rt, rapid.SampledFrom(propertyResources).Draw(rt, "resource"))
			if t.Grant == "" || rapid.Bool().Draw(rt, "next") { // what a Fence makes of a plain number is not the matter here
				t = fencing.Token{Resource: t.Resource, Number: n.marks[t.Resource].Number + 1, Grant: grantA}
			}
			if got, want := text(s.Raise(ctx, t)), n.raise(t); got != want {
				rt.Fatalf("step %d, raise %v: got %q, want %q", i, t, got, want)
			}
		case "retire":
			t := n.drawToken(rt, rapid.SampledFrom(propertyResources).Draw(rt, "resource"))
			if t.Grant == "" {
				break
			}
			n.retire(t)
			if err := s.Retire(ctx, t); err != nil {
				rt.Fatal(err)
			}
		case "commit":
			c := n.drawCommit(rt)
			if len(sent) > 0 && rapid.IntRange(0, 4).Draw(rt, "repeat") == 4 { // an earlier one, under other tokens
				old := rapid.SampledFrom(sent).Draw(rt, "which")
				c.Ops, c.Key, c.Tokens = old.Ops, old.Key, nil
				for _, t := range old.Tokens {
					c.Tokens = append(c.Tokens, n.drawToken(rt, t.Resource))
				}
			}
			sent = append(sent, c)
			res, err := s.Commit(ctx, c)
			got := text(err)
			if err == nil {
				got = fmt.Sprintf("%v, replayed %v", res.Ops, res.Replayed)
			}
			if want := n.commit(c); got != want {
				rt.Fatalf("step %d, %v %+v:\n got %s\nwant %s", i, c.Tokens, c.Ops, got, want)
			}
		}
		n.same(rt, s)
	}
}

// same compares all records.
func (n *naive) same(rt *rapid.T, s subject) {
	for _, r := range propertyResources {
		for _, k := range propertyKeys {
			rec, err := s.Get(context.Background(), r, k)
			want, there := n.values[r+"/"+k]
			if there != (err == nil) || there && (string(rec.Value) != want || rec.Version != n.versions[r+"/"+k]) {
				rt.Fatalf("%s/%s: got %q, version %d, %v; want %q, version %d, there: %v", r, k, rec.Value, rec.Version, err, want, n.versions[r+"/"+k], there)
			}
		}
	}
}

// text is a refusal with all that callers act on.
func text(err error) string {
	if stale, ok := errors.AsType[*fencing.StaleError](err); ok {
		return fmt.Sprintf("stale %v: %s, the highest is %d", stale.Token, stale.Reason, stale.Highest)
	}
	if r, ok := errors.AsType[*storage.RefusedError](err); ok {
		return fmt.Sprintf("operation %d on %s/%s: %v, have %d, want %d", r.Op, r.Resource, r.Key, r.Reason, r.Have, r.Want)
	}
	return fmt.Sprint(err)
}

// evaluated is Evaluate over maps.
type evaluated struct {
	marks   map[string]fencing.Mark
	bases   map[string]int64
	records map[storage.RecordID]storage.Record
	answers map[storage.RecordID]storage.Answer
}

func (e *evaluated) mark(resource string) fencing.Mark {
	if m, ok := e.marks[resource]; ok {
		return m
	}
	return fencing.Absent(0)
}

func (e *evaluated) Raise(_ context.Context, t fencing.Token) (err error) {
	e.marks[t.Resource], err = e.mark(t.Resource).Raise(t)
	return err
}

func (e *evaluated) Retire(_ context.Context, t fencing.Token) error {
	e.marks[t.Resource] = e.mark(t.Resource).Retire(t)
	return nil
}

func (e *evaluated) Get(_ context.Context, resource, key string) (storage.Record, error) {
	rec, ok := e.records[storage.RecordID{Resource: resource, Key: key}]
	if !ok {
		return rec, storage.ErrNotFound
	}
	return rec, nil
}

func (e *evaluated) Commit(_ context.Context, c storage.Commit) (storage.Result, error) {
	v := storage.View{Marks: map[string]fencing.Mark{}, Bases: maps.Clone(e.bases), Records: map[storage.RecordID]storage.Record{}}
	slices.SortFunc(c.Tokens, func(a, b fencing.Token) int { return cmp.Compare(a.Resource, b.Resource) })
	for _, t := range c.Tokens {
		v.Marks[t.Resource] = e.mark(t.Resource)
	}
	for _, op := range c.Ops {
		if rec, ok := e.records[op.ID()]; ok {
			v.Records[op.ID()] = rec
		}
	}
	id, keyed := c.KeyID()
	if a, ok := e.answers[id]; keyed && ok {
		v.Answer = &a
	}
	res, ch, err := storage.Evaluate(c, v)
	if ch.Answer != nil { // through its stored form
		a, bad := storage.ParseAnswer(ch.Answer.Fingerprint, ch.Answer.Number, ch.Answer.Text())
		if bad != nil {
			return res, bad
		}
		e.answers[id] = a
	}
	kept := storage.View{Bases: e.bases, Records: e.records}
	kept.Apply(ch)
	return res, err
}

// naive is a store that does what the rules say, sentence by sentence.
type naive struct {
	mode     string
	marks    map[string]fencing.Mark
	values   map[string]string // by resource/key
	versions map[string]int64
	deleted  map[string]int64 // by resource, the highest version of a record that was deleted
	answers  map[string]naiveAnswer
}

type naiveAnswer struct{ payload, said string }

func newNaive(mode string) *naive {
	return &naive{
		mode: mode, marks: map[string]fencing.Mark{}, values: map[string]string{}, versions: map[string]int64{},
		deleted: map[string]int64{}, answers: map[string]naiveAnswer{},
	}
}

// drawToken draws a token: mostly the mark, else one near it. (Small numbers are drawn more often.)
func (n *naive) drawToken(rt *rapid.T, resource string) fencing.Token {
	m := n.marks[resource]
	if m.Number > 0 && rapid.IntRange(0, 9).Draw(rt, "the mark") < 9 {
		return fencing.Token{Resource: resource, Number: m.Number, Grant: m.Grant}
	}
	return fencing.Token{
		Resource: resource, Number: max(1, m.Number+rapid.Int64Range(-1, 1).Draw(rt, "number")),
		Grant: rapid.SampledFrom([]string{grantA, grantB, ""}).Draw(rt, "grant"),
	}
}

func (n *naive) drawCommit(rt *rapid.T) storage.Commit {
	c := storage.Commit{Key: rapid.SampledFrom([]string{"", "k1", "k2"}).Draw(rt, "key")}
	tokens, changed := map[string]bool{}, map[string]bool{}
	for range rapid.IntRange(1, 8).Draw(rt, "operations") {
		r, k := rapid.SampledFrom(propertyResources).Draw(rt, "resource"), rapid.SampledFrom(propertyKeys).Draw(rt, "record")
		tokens[r] = true
		kind := rapid.SampledFrom([]storage.Kind{storage.KindPut, storage.KindAdd, storage.KindDelete, storage.KindRequire}).Draw(rt, "kind")
		if kind != storage.KindRequire && changed[r+"/"+k] {
			continue
		}
		if kind != storage.KindRequire {
			changed[r+"/"+k] = true
		}
		switch kind {
		case storage.KindPut:
			c.Ops = append(c.Ops, storage.Put(r, k, []byte(rapid.SampledFrom([]string{"", "5", "-0", "text", "9007199254740991"}).Draw(rt, "value"))))
		case storage.KindAdd:
			c.Ops = append(c.Ops, storage.Add(r, k, rapid.Int64Range(-3, 3).Draw(rt, "delta"), rapid.SampledFrom([]int64{storage.NoMinimum, 0, 3}).Draw(rt, "minimum")))
		case storage.KindDelete:
			c.Ops = append(c.Ops, storage.Delete(r, k))
		case storage.KindRequire:
			c.Ops = append(c.Ops, storage.Require(r, k, max(0, n.versions[r+"/"+k]+rapid.SampledFrom([]int64{0, 0, 0, 1, -1}).Draw(rt, "version"))))
		}
	}
	if rapid.IntRange(0, 4).Draw(rt, "bystander") == 4 {
		tokens["a"], tokens["b"] = true, true
	}
	for _, r := range slices.Sorted(maps.Keys(tokens)) {
		c.Tokens = append(c.Tokens, n.drawToken(rt, r))
	}
	return c
}

// verdict says what is wrong with a token; empty if it is the mark.
func (n *naive) verdict(t fencing.Token) string {
	m, seen := n.marks[t.Resource]
	var reason string
	switch {
	case t.Number < m.Number:
		reason = "superseded"
	case t.Number > m.Number:
		reason = "ungranted"
	case m.Retired || !seen:
		reason = "retired"
	case t.Grant != m.Grant:
		reason = "duplicate"
	default:
		return ""
	}
	return fmt.Sprintf("stale %v: %s, the highest is %d", t, reason, m.Number)
}

func (n *naive) raise(t fencing.Token) string {
	if t.Number > n.marks[t.Resource].Number {
		n.marks[t.Resource] = fencing.Mark{Number: t.Number, Grant: t.Grant}
		return "<nil>"
	}
	if bad := n.verdict(t); bad != "" {
		return bad
	}
	return "<nil>"
}

func (n *naive) retire(t fencing.Token) {
	if n.verdict(t) == "" {
		n.marks[t.Resource] = fencing.Mark{Number: t.Number, Retired: true}
	}
}

// commit returns what a commit is answered, and does it.
func (n *naive) commit(c storage.Commit) string {
	for _, t := range c.Tokens { // they were drawn in order
		switch n.mode {
		case "strict":
			if t.Grant == "" {
				return fmt.Sprintf("stale %v: grant-required, the highest is %d", t, n.marks[t.Resource].Number)
			}
		case "classic":
			if bad := n.raise(t); bad != "<nil>" && c.Key == "" {
				return bad
			}
		}
	}
	key, payload := c.Tokens[0].Resource+"/"+c.Key, fmt.Sprintf("%v", c.Ops)
	for _, t := range c.Tokens {
		payload += t.Resource
	}
	if a, ok := n.answers[key]; ok && c.Key != "" {
		if a.payload != payload {
			return fmt.Sprintf("operation %d on %s: %v, have 0, want 0", storage.NoOp, key, storage.ErrKeyReused)
		}
		return strings.Replace(a.said, "replayed false", "replayed true", 1)
	}
	for _, t := range c.Tokens {
		if bad := n.verdict(t); bad != "" {
			return bad
		}
	}
	said, values, versions, deleted := n.work(c)
	if values != nil {
		n.values, n.versions, n.deleted = values, versions, deleted
	}
	if c.Key != "" {
		n.answers[key] = naiveAnswer{payload, said}
	}
	return said
}

// work does the operations on copies; they are nil if the data refuses.
func (n *naive) work(c storage.Commit) (said string, values map[string]string, versions, deleted map[string]int64) {
	values, versions, deleted = maps.Clone(n.values), maps.Clone(n.versions), maps.Clone(n.deleted)
	results := make([]storage.OpResult, len(c.Ops))
	for i, op := range c.Ops {
		id := op.Resource + "/" + op.Key
		value, there := n.values[id]
		no := func(why error, have, want int64) (string, map[string]string, map[string]int64, map[string]int64) {
			return fmt.Sprintf("operation %d on %s: %v, have %d, want %d", i, id, why, have, want), nil, nil, nil
		}
		next := n.versions[id] + 1
		if !there {
			next = n.deleted[op.Resource] + 1 // no version comes twice
		}
		switch op.Kind {
		case storage.KindRequire:
			if n.versions[id] != op.Version {
				return no(storage.ErrVersionMismatch, n.versions[id], op.Version)
			}
		case storage.KindPut:
			values[id], versions[id] = string(op.Value), next
			results[i].Version = next
		case storage.KindDelete:
			deleted[op.Resource] = max(deleted[op.Resource], n.versions[id])
			delete(values, id)
			delete(versions, id)
		case storage.KindAdd:
			have := int64(0)
			if there {
				var err error
				have, err = strconv.ParseInt(value, 10, 64)
				if err != nil || strconv.FormatInt(have, 10) != value {
					return no(storage.ErrNotCounter, 0, 0)
				}
			}
			sum := have + op.Delta
			if sum > 1<<53-1 || sum < -(1<<53-1) {
				return no(storage.ErrCounterRange, have, 0)
			}
			if sum < op.Min {
				return no(storage.ErrBelowMinimum, have, op.Min)
			}
			values[id], versions[id] = strconv.FormatInt(sum, 10), next
			results[i] = storage.OpResult{Version: next, Counter: sum}
		}
	}
	for i, op := range c.Ops {
		if op.Kind == storage.KindRequire {
			results[i].Version = versions[op.Resource+"/"+op.Key]
		}
	}
	return fmt.Sprintf("%v, replayed false", results), values, versions, deleted
}
