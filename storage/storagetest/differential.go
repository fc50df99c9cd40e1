package storagetest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/storage"
	"github.com/fencegate/fencegate/storage/memstore"
)

// Differential runs random sequences of raises, retires, evicts, commits and reads on
// the store and on a model, a Store over memstore: every answer must be the same, the
// fields of errors too, and so must all records, versions and marks afterwards.
func Differential(t *testing.T, h Harness) {
	for _, mode := range both {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			s := h.New(t, mode)
			gen, limited := stepsGen(), h.limit()
			rapid.Check(t, func(rt *rapid.T) {
				steps := gen.Draw(rt, "steps")
				if limited() {
					return
				}
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				if err := differ(ctx, s, mode, unique(t, "diff"), steps); err != nil {
					limited = func() bool { return false } // rapid is about to shrink
					rt.Fatal(err)
				}
			})
		})
	}
}

// limit tells when Checks sequences have run. The flag wins over the harness.
func (h Harness) limit() func() bool {
	f := flag.Lookup("rapid.checks")
	if h.Checks == 0 || f == nil || f.Value.String() != f.DefValue {
		return func() bool { return false }
	}
	var n atomic.Int64
	return func() bool { return n.Add(1) > int64(h.Checks) }
}

// pair is a subject and its model, with the resources that they share.
type pair struct {
	subject, model Subject
	resources      []string
	sent           []storage.Commit // with a key
}

// differ runs steps on s and on a new model, and returns the first difference. Its text
// names no real resource: the same sequence fails with the same text.
func differ(ctx context.Context, s Subject, mode fencing.Mode, base string, steps []step) error {
	model, err := storage.New(memstore.New(nil), &storage.Options{Mode: mode})
	if err != nil {
		return err
	}
	p := &pair{subject: s, model: Subject{Store: model, Fence: model}}
	var names []string
	for i := range stepResources {
		name := fmt.Sprintf("%s-%d", base, i)
		p.resources = append(p.resources, name)
		names = append(names, name, fmt.Sprintf("resource %d", i))
	}
	anonymous := strings.NewReplacer(names...)
	for i, st := range steps {
		token, commit := p.resolve(ctx, st)
		want, wantErr := p.do(ctx, p.model, st, token, commit)
		got, gotErr := p.do(ctx, p.subject, st, token, commit)
		if !sameError(gotErr, wantErr) || !reflect.DeepEqual(got, want) {
			return errors.New(anonymous.Replace(fmt.Sprintf("step %d, %v:\n got %+v, %s\nwant %+v, %s",
				i, st, got, describe(gotErr), want, describe(wantErr))))
		}
	}
	want, err := imageOf(ctx, p.model, p.resources)
	if err != nil {
		return err
	}
	got, err := imageOf(ctx, p.subject, p.resources)
	if err != nil {
		return errors.New(anonymous.Replace(err.Error()))
	}
	if !reflect.DeepEqual(got, want) {
		return errors.New(anonymous.Replace(fmt.Sprintf("after %d steps:\n got %+v\nwant %+v", len(steps), got, want)))
	}
	return nil
}

// resolve replaces a step's symbols by what the model knows.
func (p *pair) resolve(ctx context.Context, st step) (fencing.Token, storage.Commit) {
	token := p.token(ctx, st.Token)
	if st.Do == "again" {
		return token, p.again(ctx, st)
	}
	c := storage.Commit{Tokens: []fencing.Token{token}, Key: st.Once}
	for _, more := range st.More {
		c.Tokens = append(c.Tokens, p.token(ctx, more))
	}
	for _, op := range st.Ops {
		in, key := p.resources[op.Resource], stepKeys[op.Key]
		switch op.Kind {
		case storage.KindPut:
			c.Ops = append(c.Ops, storage.Put(in, key, []byte(op.Value)))
		case storage.KindAdd:
			c.Ops = append(c.Ops, storage.Add(in, key, op.Delta, op.Min))
		case storage.KindDelete:
			c.Ops = append(c.Ops, storage.Delete(in, key))
		case storage.KindRequire:
			version := op.Version
			if op.Current {
				rec, _ := p.model.Store.Get(ctx, in, key) // no record: version 0
				version += rec.Version
			}
			c.Ops = append(c.Ops, storage.Require(in, key, version))
		}
	}
	if c.Key != "" {
		p.sent = append(p.sent, c)
	}
	return token, c
}

// again returns a commit that was sent before, with new tokens like the step's.
func (p *pair) again(ctx context.Context, st step) storage.Commit {
	if st.Back >= len(p.sent) {
		return storage.Commit{}
	}
	c := p.sent[len(p.sent)-1-st.Back]
	var tokens []fencing.Token
	for _, t := range slices.Backward(c.Tokens) { // their order is no part of it
		like := st.Token
		like.Resource = slices.Index(p.resources, t.Resource)
		tokens = append(tokens, p.token(ctx, like))
	}
	c.Tokens = tokens
	return c
}

func (p *pair) token(ctx context.Context, s symbol) fencing.Token {
	t := fencing.Token{Resource: p.resources[s.Resource], Number: s.Number, Grant: stepGrants[s.Grant]}
	m, err := p.model.Fence.Mark(ctx, t.Resource)
	if err != nil || m.Number == 0 {
		return t
	}
	switch s.Is {
	case "current":
		t.Number = m.Number
		if !m.Retired {
			t.Grant = m.Grant
		}
	case "twin":
		t.Number = m.Number
	case "last":
		t.Number = max(1, m.Number-1)
	case "next":
		t.Number = m.Number + 1
	}
	return t
}

// do performs a step and returns what it answered.
func (p *pair) do(ctx context.Context, s Subject, st step, t fencing.Token, c storage.Commit) (any, error) {
	switch st.Do {
	case "skip":
		return nil, nil
	case "raise":
		return nil, s.Fence.Raise(ctx, t)
	case "retire":
		return nil, s.Fence.Retire(ctx, t)
	case "evict":
		return nil, s.Fence.Evict(ctx, t)
	case "commit", "again":
		res, err := s.Store.Commit(ctx, c)
		if err != nil {
			return nil, err // the result means nothing then
		}
		return res, nil
	case "read":
		rec, err := s.Store.GetFenced(ctx, t, stepKeys[st.Key])
		return plain(rec), err
	case "get":
		rec, err := s.Store.Get(ctx, t.Resource, stepKeys[st.Key])
		return plain(rec), err
	case "list":
		list, err := s.Store.List(ctx, t.Resource, st.Prefix, st.After, st.Limit)
		texts := []string{}
		for _, rec := range list {
			texts = append(texts, plain(rec))
		}
		return texts, err
	}
	return nil, fmt.Errorf("no such step: %q", st.Do)
}

func plain(rec storage.Record) string {
	return fmt.Sprintf("%s/%s = %q, version %d", rec.Resource, rec.Key, rec.Value, rec.Version)
}

// sameError compares what callers act on: for refusals every field, for others the
// outcome.
func sameError(a, b error) bool {
	staleA, _ := errors.AsType[*fencing.StaleError](a)
	staleB, _ := errors.AsType[*fencing.StaleError](b)
	refusedA, _ := errors.AsType[*storage.RefusedError](a)
	refusedB, _ := errors.AsType[*storage.RefusedError](b)
	return reflect.DeepEqual(staleA, staleB) && reflect.DeepEqual(refusedA, refusedB) &&
		errors.Is(a, storage.ErrNotFound) == errors.Is(b, storage.ErrNotFound) &&
		errors.Is(a, fencing.ErrInvalid) == errors.Is(b, fencing.ErrInvalid) &&
		fencing.OutcomeOf(a) == fencing.OutcomeOf(b)
}

func describe(err error) string {
	if stale, ok := errors.AsType[*fencing.StaleError](err); ok {
		return fmt.Sprintf("stale: %v highest %d %s", stale.Token, stale.Highest, stale.Reason)
	}
	if refused, ok := errors.AsType[*storage.RefusedError](err); ok {
		return fmt.Sprintf("refused: %+v", *refused)
	}
	return fmt.Sprintf("%v (%v)", err, fencing.OutcomeOf(err))
}
