package workload_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/torture/history"
	"github.com/fencegate/fencegate/internal/torture/workload"
	"github.com/fencegate/fencegate/storage"
)

// lossy is a store whose commits are carried out, and some replies lost.
type lossy struct {
	*storage.Store
	share float64
}

var errLost = fencing.AsUnknown(errors.New("the reply was lost"))

func (l lossy) Commit(ctx context.Context, c storage.Commit) (storage.Result, error) {
	if _, turn := ctx.Deadline(); !turn {
		return l.Store.Commit(ctx, c) // who seeds is not troubled
	}
	if rand.Float64() < l.share/2 {
		return storage.Result{}, errLost // the request was
	}
	res, err := l.Store.Commit(ctx, c)
	if rand.Float64() < l.share {
		return storage.Result{}, errLost
	}
	return res, err
}

// TestLostReplies: what was unknown is found out under the key, and nothing is taken twice.
func TestLostReplies(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"coupon", "set"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := options
			o.Odd = 0.2
			b, _, final := work(t, name, access(t, func(s *storage.Store) workload.Store { return lossy{s, 0.3} }), o, 2*time.Second, askedAgain)
			b.answered(t)
			attempts := b.attempts()
			several, replayed, open := 0, 0, 0
			for key, list := range attempts {
				if len(list) > 1 {
					several++
				}
				found := list[0].Outcome != "unknown"
				for _, op := range list {
					found = found || op.Outcome == "applied"
					if op.Replayed {
						replayed++
					}
					if len(op.Writes) != len(list[0].Writes) || op.Writes[0].Key != list[0].Writes[0].Key {
						t.Errorf("key %s was sent with another commit: %v and %v", key, list[0].Writes, op.Writes)
					}
				}
				if !found {
					open++
				}
			}
			// What is late, or under way at the end, is not pursued.
			if several < 10 || replayed < 5 || open > len(attempts)/5 {
				t.Errorf("of %d commits with a key %d were sent several times, %d answers were replayed, and %d stay unknown", len(attempts), several, replayed, open)
			}
			taken, receipts := int64(0), int64(0)
			for _, c := range final {
				if c.Key == "stock" {
					taken += 1_000_000 - number(c.Value)
				} else {
					receipts++
				}
			}
			if name == "coupon" && taken != receipts {
				t.Errorf("%d were taken, and there are %d receipts", taken, receipts)
			}
		})
	}
}

// attempts returns the commits by their keys, but for those that were forged.
func (b *book) attempts() map[string][]history.Op {
	m := map[string][]history.Op{}
	for _, op := range b.of(history.Commit) {
		if op.Key != "" && !op.Forged {
			m[op.Key] = append(m[op.Key], op)
		}
	}
	return m
}

// askedAgain reports whether enough commits were sent several times, and enough of their answers replayed.
func askedAgain(b *book) bool {
	several, replayed := 0, 0
	for _, list := range b.attempts() {
		if len(list) > 1 {
			several++
		}
		for _, op := range list {
			if op.Replayed {
				replayed++
			}
		}
	}
	return len(b.attempts()) >= 40 && several >= 10 && replayed >= 5
}

// TestOneCall: where there is a gateway, some coupons are taken by one-call commits, and those whose reply was lost
// are asked for again.
func TestOneCall(t *testing.T) {
	t.Parallel()
	a := access(t, nil)
	var lost atomic.Int64
	a.Locked = func(ctx context.Context, c storage.Commit) (storage.Result, error) {
		if len(c.Tokens) > 0 || c.Key == "" {
			t.Errorf("a one-call commit has %d tokens and the key %q", len(c.Tokens), c.Key)
		}
		lease, err := a.Locker.Acquire(ctx, c.Ops[0].Resource)
		if err != nil {
			return storage.Result{}, err
		}
		defer func() { _ = lease.Release(ctx) }()
		c.Tokens = []fencing.Token{lease.Token()}
		res, err := a.Store.Commit(ctx, c)
		if rand.Float64() < 0.2 {
			lost.Add(1)
			return storage.Result{}, errLost
		}
		return res, err
	}
	b, _, final := work(t, "coupon", a, options, time.Second, func(b *book) bool {
		once, replayed := 0, 0
		for _, op := range b.of(history.Commit) {
			if op.Once {
				once++
			}
			if op.Once && op.Replayed {
				replayed++
			}
		}
		return once > 20 && replayed > 0
	})
	b.answered(t)
	once, replayed := 0, 0
	for _, op := range b.of(history.Commit) {
		if !op.Once {
			continue
		}
		once++
		if len(op.Tokens) > 0 || op.Key == "" {
			t.Errorf("%s is a one-call commit with tokens %v and key %q", op.ID, op.Tokens, op.Key)
		}
		if op.Replayed {
			replayed++
		}
	}
	if once < 5 || replayed == 0 {
		t.Errorf("%d one-call commits, %d replies lost, %d replayed", once, lost.Load(), replayed)
	}
	receipts, taken := 0, int64(0)
	for _, c := range final {
		if c.Key == "stock" {
			taken += 1_000_000 - number(c.Value)
		} else {
			receipts++
		}
	}
	if int64(receipts) != taken {
		t.Errorf("%d were taken, and there are %d receipts", taken, receipts)
	}
}

// careless is a store that says yes whatever the token.
type careless struct {
	*storage.Store
}

func (c careless) Commit(ctx context.Context, k storage.Commit) (storage.Result, error) {
	res, err := c.Store.Commit(ctx, k)
	if errors.Is(err, fencing.ErrStale) {
		return storage.Result{Ops: make([]storage.OpResult, len(k.Ops))}, nil
	}
	return res, err
}

// passed reports whether something forged was let through.
func passed(b *book) bool {
	return slices.ContainsFunc(b.of(history.Commit), func(op history.Op) bool { return op.Forged && op.Outcome == "applied" })
}

// TestCareless: a store that says yes to what it should refuse is seen in what was written down.
func TestCareless(t *testing.T) {
	t.Parallel()
	b, _, final := work(t, "register", access(t, func(s *storage.Store) workload.Store { return careless{Store: s} }), options, time.Second, passed)
	b.answered(t)
	forged := 0
	for _, op := range b.of(history.Commit) {
		if op.Forged && op.Outcome == "applied" {
			forged++
		}
	}
	if forged == 0 {
		t.Error("no forged write was let through")
	}
	if fits("register", b, final) == "" {
		t.Error("the end fits what was acknowledged")
	}
}

// hung is a store that answers nothing.
type hung struct{ *storage.Store }

func (hung) Commit(ctx context.Context, _ storage.Commit) (storage.Result, error) {
	<-ctx.Done()
	return storage.Result{}, fencing.AsUnknown(ctx.Err())
}

func (hung) GetFenced(ctx context.Context, _ fencing.Token, _ string) (storage.Record, error) {
	<-ctx.Done()
	return storage.Record{}, fencing.AsUnknown(ctx.Err())
}

// TestHungStore: every call ends, and with the context the turns do.
func TestHungStore(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"register", "coupon", "bank"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := options
			o.Call = 100 * time.Millisecond
			a := access(t, nil)
			seeded := a.Store
			a.Store = &switched{Store: seeded, then: hung{}}
			began := time.Now()
			b, _, _ := work(t, name, a, o, 500*time.Millisecond, nil)
			b.answered(t)
			if took := time.Since(began); took > 30*time.Second {
				t.Errorf("it took %v to end", took)
			}
			for _, op := range b.ops {
				if op.Kind == history.Commit && op.Outcome != "unknown" {
					t.Errorf("%s is %s, want unknown", op.ID, op.Outcome)
				}
			}
		})
	}
}

// switched serves those who seed and read the end, and hangs for the turns: these have a deadline.
type switched struct {
	workload.Store
	then workload.Store
}

func (s *switched) Commit(ctx context.Context, c storage.Commit) (storage.Result, error) {
	if _, bounded := ctx.Deadline(); bounded {
		return s.then.Commit(ctx, c)
	}
	return s.Store.Commit(ctx, c)
}

func (s *switched) GetFenced(ctx context.Context, t fencing.Token, key string) (storage.Record, error) {
	if _, bounded := ctx.Deadline(); bounded {
		return s.then.GetFenced(ctx, t, key)
	}
	return s.Store.GetFenced(ctx, t, key)
}
