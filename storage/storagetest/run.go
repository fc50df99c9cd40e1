package storagetest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync/atomic"
	"testing"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/storage"
)

// run is one scenario under way, with the few things that scenarios do all the time.
type run struct {
	testing.TB
	h    Harness
	mode fencing.Mode
	s    Subject
}

func (r *run) resource() string { return unique(r, "st") }

// unique returns a resource name that no other call returns, in this process or another:
// the suite's subjects may share a server. Later names sort behind earlier ones.
func unique(_ testing.TB, prefix string) string {
	return fmt.Sprintf("%s:%s.%08d", prefix, process, names.Add(1))
}

var (
	process = fencing.NewGrant()[:10]
	names   atomic.Int64
)

// token returns a token of a new grant, which is not raised.
func token(resource string, number int64) fencing.Token {
	return fencing.Token{Resource: resource, Number: number, Grant: fencing.NewGrant()}
}

// raised returns a token of a new grant, which is the mark.
func (r *run) raised(resource string, number int64) fencing.Token {
	r.Helper()
	t := token(resource, number)
	r.raise(t)
	return t
}

// held returns a new resource's raised token.
func (r *run) held(number int64) fencing.Token {
	r.Helper()
	return r.raised(r.resource(), number)
}

func (r *run) raise(t fencing.Token) {
	r.Helper()
	r.ok(r.s.Fence.Raise(r.Context(), t), "raise")
}

func (r *run) ok(err error, what string) {
	r.Helper()
	if err != nil {
		r.Fatalf("%s: got %v, want no error", what, err)
	}
}

func (r *run) try(ops []storage.Op, tokens ...fencing.Token) (storage.Result, error) {
	return r.s.Store.Commit(r.Context(), storage.Commit{Tokens: tokens, Ops: ops})
}

// commit applies ops, each of them with its results.
func (r *run) commit(ops []storage.Op, tokens ...fencing.Token) []storage.OpResult {
	r.Helper()
	res, err := r.try(ops, tokens...)
	if err != nil {
		r.Fatalf("commit of %d operations: got %v, want applied", len(ops), err)
	}
	if len(res.Ops) != len(ops) {
		r.Fatalf("got %d results for %d operations", len(res.Ops), len(ops))
	}
	return res.Ops
}

func (r *run) tryPut(t fencing.Token, key, value string) error {
	_, err := r.try([]storage.Op{storage.Put(t.Resource, key, []byte(value))}, t)
	return err
}

// put sets a record and returns its version.
func (r *run) put(t fencing.Token, key, value string) int64 {
	r.Helper()
	return r.commit([]storage.Op{storage.Put(t.Resource, key, []byte(value))}, t)[0].Version
}

func (r *run) tryAdd(t fencing.Token, key string, delta, minimum int64) (storage.Result, error) {
	return r.try([]storage.Op{storage.Add(t.Resource, key, delta, minimum)}, t)
}

func (r *run) remove(t fencing.Token, key string) storage.OpResult {
	r.Helper()
	return r.commit([]storage.Op{storage.Delete(t.Resource, key)}, t)[0]
}

// wantRecord reads a record and compares all of it; version 0 is not compared.
func (r *run) wantRecord(resource, key, value string, version int64) {
	r.Helper()
	rec, err := r.s.Store.Get(r.Context(), resource, key)
	if err != nil {
		r.Fatalf("get %s: %v", key, err)
	}
	if rec.Resource != resource || rec.Key != key || string(rec.Value) != value {
		r.Errorf("got %s/%s = %.60q, want %s/%s = %.60q", rec.Resource, rec.Key, rec.Value, resource, key, value)
	}
	if version != 0 && rec.Version != version {
		r.Errorf("%s: got version %d, want %d", key, rec.Version, version)
	}
}

func (r *run) wantAbsent(resource, key string) {
	r.Helper()
	if rec, err := r.s.Store.Get(r.Context(), resource, key); !errors.Is(err, storage.ErrNotFound) {
		r.Errorf("get %s: got %.60q, %v, want ErrNotFound", key, rec.Value, err)
	}
}

// wantStale asks for every field of a refusal by the fence, and for its outcome.
func (r *run) wantStale(err error, t fencing.Token, highest int64, reason fencing.Reason) {
	r.Helper()
	got, ok := errors.AsType[*fencing.StaleError](err)
	if !ok {
		r.Errorf("with %v: got %v, want a *StaleError because of %q", t, err, reason)
		return
	}
	if want := (fencing.StaleError{Token: t, Highest: highest, Reason: reason}); *got != want {
		r.Errorf("got the refusal {%v highest %d %s}, want {%v highest %d %s} (the grant ids may differ too)",
			got.Token, got.Highest, got.Reason, t, highest, reason)
	}
	if !errors.Is(err, fencing.ErrStale) || fencing.OutcomeOf(err) != fencing.Refused {
		r.Errorf("got is stale = %t, outcome %v, want true, refused", errors.Is(err, fencing.ErrStale), fencing.OutcomeOf(err))
	}
}

// wantRefused asks for every field of a refusal by the data, and for its outcome.
func (r *run) wantRefused(err error, want storage.RefusedError) {
	r.Helper()
	got, ok := errors.AsType[*storage.RefusedError](err)
	if !ok {
		r.Errorf("got %v, want a *RefusedError: %v", err, &want)
		return
	}
	if *got != want {
		r.Errorf("got %+v, want %+v", *got, want)
	}
	if !errors.Is(err, want.Reason) || fencing.OutcomeOf(err) != fencing.Refused {
		r.Errorf("got is %v = %t, outcome %v, want true, refused", want.Reason, errors.Is(err, want.Reason), fencing.OutcomeOf(err))
	}
}

func (r *run) wantMark(resource string, want fencing.Mark) {
	r.Helper()
	got, err := r.s.Fence.Mark(r.Context(), resource)
	r.ok(err, "mark")
	if !sameMark(got, want) {
		r.Errorf("got the mark %v, want %v (the grant ids may differ too)", got, want)
	}
	seen, err := r.s.Store.Mark(r.Context(), resource)
	r.ok(err, "mark")
	if seen.Number != want.Number || seen.Retired != want.Retired {
		r.Errorf("got the mark %v of the surface, want %v", seen, want)
	}
}

// sameMark compares marks. A retired mark's grant id means nothing.
func sameMark(a, b fencing.Mark) bool {
	return a.Number == b.Number && a.Retired == b.Retired && (a.Retired || a.Grant == b.Grant)
}

// markOf is the mark that t is.
func markOf(t fencing.Token) fencing.Mark { return fencing.Mark{Number: t.Number, Grant: t.Grant} }

// image is all that can be seen of some resources.
type image struct {
	Marks   []fencing.Mark
	Records []storage.Record
}

func (r *run) image(resources ...string) image {
	r.Helper()
	im, err := imageOf(r.Context(), r.s, resources)
	r.ok(err, "look at everything")
	return im
}

func imageOf(ctx context.Context, s Subject, resources []string) (image, error) {
	var im image
	for _, name := range resources {
		m, err := s.Fence.Mark(ctx, name)
		if err != nil {
			return im, err
		}
		if m.Retired {
			m.Grant = ""
		}
		im.Marks = append(im.Marks, m)
		list, err := s.Store.List(ctx, name, "", "", 1000)
		if err != nil {
			return im, err
		}
		for _, rec := range list {
			if len(rec.Value) == 0 {
				rec.Value = nil // empty and nil are one value
			}
			im.Records = append(im.Records, rec)
		}
	}
	return im, nil
}

func (r *run) wantImage(want image, resources ...string) {
	r.Helper()
	if got := r.image(resources...); !reflect.DeepEqual(got, want) {
		r.Errorf("something changed: got %+v, want %+v", got, want)
	}
}

func readRecord(ctx context.Context, s Subject, resource, key string) (value []byte, found bool, err error) {
	rec, err := s.Store.Get(ctx, resource, key)
	if errors.Is(err, storage.ErrNotFound) {
		return nil, false, nil
	}
	return rec.Value, err == nil, err
}
