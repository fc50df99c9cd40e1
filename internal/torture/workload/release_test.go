package workload_test

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/internal/torture/history"
	"github.com/fencegate/fencegate/internal/torture/workload"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/storage"
)

// deaf is an issuer that does not hear of releases.
type deaf struct{ locking.Issuer }

func (deaf) Release(context.Context, fencing.Token) (bool, error) { return false, errLost }

// TestUnclearRelease: after a release that nobody acknowledged the token may still be good, and a late write would be no
// forged one.
func TestUnclearRelease(t *testing.T) {
	t.Parallel()
	a := access(t, nil)
	seeder := a.Locker
	a.Issuer = deaf{a.Issuer}
	var err error
	if a.Locker, err = locking.New(a.Issuer, &locking.Options{TTL: options.TTL, Wait: options.Wait}); err != nil {
		t.Fatal(err)
	}
	w, _ := workload.Named("register")
	resources := w.Resources(testenv.Unique(t, "run"), 0)
	seed(t, w, workload.Access{Locker: seeder, Store: a.Store}, resources)
	o := options
	o.Late, o.Odd = 1, 0
	b := newBook()
	turns(t, w, resources, a, o, b, 3)
	b.answered(t)
	releases := b.of(history.Release)
	if len(releases) != 3 {
		t.Errorf("%d releases, want 3", len(releases))
	}
	for _, op := range releases {
		if op.Outcome != "unknown" || op.Freed {
			t.Errorf("%s is %s, freed %v", op.ID, op.Outcome, op.Freed)
		}
	}
	for _, op := range b.of(history.Commit) {
		if op.Forged {
			t.Errorf("%s is called forged, and is %s", op.ID, op.Outcome)
		}
	}
}

// turns lets one seat take some turns, one after the other.
func turns(t *testing.T, w workload.Workload, resources []string, a workload.Access, o workload.Options, b *book, n int) {
	t.Helper()
	next := 0
	s := &workload.Seat{
		Access: a, Options: o, Rand: rand.New(rand.NewPCG(1, 2)), Log: b.log,
		Next: func() string { next++; return "1.1." + strconv.Itoa(next) },
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	for range n {
		w.Turn(ctx, s, resources)
	}
}

// robbed is a store that loses the first commit, and whose lock is somebody else's from then on.
type robbed struct {
	*storage.Store
	once sync.Once
	rob  func(fencing.Token)
}

func (r *robbed) Commit(ctx context.Context, c storage.Commit) (storage.Result, error) {
	lost := false
	r.once.Do(func() {
		r.rob(c.Tokens[0])
		lost = true
	})
	if lost {
		return storage.Result{}, errLost
	}
	return r.Store.Commit(ctx, c)
}

// TestRobbed: a holder that does not know what became of its commit, and whose token is refused meanwhile, takes the lock
// again for it; while it cannot, it has nothing to release twice.
func TestRobbed(t *testing.T) {
	t.Parallel()
	for _, free := range []bool{true, false} {
		t.Run(strconv.FormatBool(free), func(t *testing.T) {
			t.Parallel()
			a := access(t, nil)
			w, _ := workload.Named("coupon")
			resources := w.Resources(testenv.Unique(t, "run"), 0)
			seed(t, w, a, resources)
			store, _ := a.Store.(*storage.Store)
			issuer := a.Issuer
			a.Store = &robbed{Store: store, rob: func(tok fencing.Token) {
				if err := issuer.Evict(t.Context(), tok.Resource, tok.Number, "test"); err != nil {
					t.Error(err)
				}
				g, err := issuer.Grant(t.Context(), locking.Request{Resource: tok.Resource, TTL: time.Minute})
				if err != nil {
					t.Error(err)
				}
				if free {
					if _, err := issuer.Release(t.Context(), g.Token); err != nil {
						t.Error(err)
					}
				}
			}}
			var err error
			if a.Locker, err = locking.New(a.Issuer, &locking.Options{TTL: options.TTL, Wait: 20 * time.Millisecond}); err != nil {
				t.Fatal(err)
			}
			o := options
			o.Odd = 0
			b := newBook()
			turns(t, w, resources, a, o, b, 1)
			b.answered(t)
			released := map[string]bool{}
			for _, op := range b.of(history.Release) {
				if released[op.Tokens[0].Grant] {
					t.Errorf("%s releases a token again", op.ID)
				}
				released[op.Tokens[0].Grant] = true
			}
			applied := map[bool]int{}
			for _, op := range b.of(history.Commit) {
				applied[op.Outcome == "applied"]++
			}
			if (applied[true] == 1) != free || applied[false] < 2 {
				t.Errorf("%d attempts were applied, %d were not", applied[true], applied[false])
			}
		})
	}
}
