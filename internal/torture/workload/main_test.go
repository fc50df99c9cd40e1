package workload_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/internal/torture/history"
	"github.com/fencegate/fencegate/internal/torture/workload"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/locking/memlock"
	"github.com/fencegate/fencegate/storage"
	"github.com/fencegate/fencegate/storage/memstore"
)

func TestMain(m *testing.M) { testenv.Main(m) }

var options = workload.Options{
	TTL: 100 * time.Millisecond, Wait: time.Second, Call: 2 * time.Second, Hold: 2 * time.Millisecond, Late: 0.5, Odd: 0.3,
}

// book is where the seats of a test write down what they do.
type book struct {
	mu   sync.Mutex // guards what follows
	ops  map[string]history.Op
	last map[string]bool // by id: it was answered
	told map[string]bool // by id: its writes were written down before its answer
	more int             // how often an op was written down after its answer
}

func newBook() *book {
	return &book{ops: map[string]history.Op{}, last: map[string]bool{}, told: map[string]bool{}}
}

func (b *book) log(op history.Op) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.last[op.ID] {
		b.more++
	}
	if op.Return == 0 && len(op.Writes) > 0 {
		b.told[op.ID] = true
	}
	b.ops[op.ID] = op
	b.last[op.ID] = op.Return != 0
}

// of returns the ops of a kind, by call.
func (b *book) of(kind history.Kind) []history.Op {
	return slices.DeleteFunc(b.all(), func(op history.Op) bool { return op.Kind != kind })
}

// all returns the ops, by call.
func (b *book) all() []history.Op {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := slices.Collect(maps.Values(b.ops))
	slices.SortFunc(list, func(x, y history.Op) int { return cmp.Compare(x.Call, y.Call) })
	return list
}

// access is a lock and a store in memory; with, which may be nil, changes what the seats see of the store.
func access(t *testing.T, with func(*storage.Store) workload.Store) workload.Access {
	t.Helper()
	store, err := storage.New(memstore.New(nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	a := workload.Access{Store: store}
	a.Issuer, a.Locker = desk(t, memlock.New(), store)
	if with != nil {
		a.Store = with(store)
	}
	return a
}

func desk(t *testing.T, lock locking.Backend, fence fencing.Fence) (locking.Issuer, *locking.Locker) {
	t.Helper()
	issuer, err := locking.NewIssuer(lock, []fencing.Fence{fence}, nil)
	if err != nil {
		t.Fatal(err)
	}
	locker, err := locking.New(issuer, &locking.Options{TTL: options.TTL, Wait: options.Wait})
	if err != nil {
		t.Fatal(err)
	}
	return issuer, locker
}

// seed seeds a group. The leases are short, and on a busy machine one can be over before it is used: it is taken again then.
func seed(t *testing.T, w workload.Workload, a workload.Access, resources []string) (cells []history.Cell) {
	t.Helper()
	testenv.Eventually(t, time.Minute, "a group is seeded", func() bool {
		var err error
		cells, err = w.Seed(t.Context(), a, resources)
		if err != nil && !errors.Is(err, locking.ErrLost) && !errors.Is(err, fencing.ErrStale) {
			t.Fatalf("seed: %v", err)
		}
		return err == nil
	})
	return cells
}

const (
	seats  = 6
	groups = 2
)

// work lets seats work for a time, and on until they have done enough where that is not nil, and returns what they wrote down, and what was there before and in the end.
func work(t *testing.T, name string, a workload.Access, o workload.Options, d time.Duration, enough func(*book) bool) (b *book, initial, final []history.Cell) {
	t.Helper()
	w, ok := workload.Named(name)
	if !ok {
		t.Fatalf("there is no workload %s", name)
	}
	prefix := testenv.Unique(t, "run")
	b = newBook()
	for g := range groups {
		initial = append(initial, seed(t, w, a, w.Resources(prefix, g))...)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var all sync.WaitGroup
	for i := range seats {
		n := 0
		s := &workload.Seat{
			Access: a, Process: 1, Seat: i, Options: o, Rand: rand.New(rand.NewPCG(7, uint64(i))), Log: b.log,
			Next: func() string { n++; return fmt.Sprintf("1.%d.%d", i, n) },
		}
		all.Go(func() {
			for ctx.Err() == nil {
				w.Turn(ctx, s, w.Resources(prefix, s.Rand.IntN(groups)))
			}
		})
	}
	began := time.Now()
	testenv.Eventually(t, 60*time.Second, "the seats have done enough", func() bool {
		return time.Since(began) >= d && (enough == nil || enough(b))
	})
	cancel()
	all.Wait()
	for g := range groups {
		cells, err := w.Final(t.Context(), a, w.Resources(prefix, g))
		if err != nil {
			t.Fatalf("final: %v", err)
		}
		final = append(final, cells...)
	}
	return b, initial, final
}

// answered checks what holds for every run whose calls all come back.
func (b *book) answered(t *testing.T) {
	t.Helper()
	if b.more > 0 {
		t.Errorf("%d ops were written down after their answer", b.more)
	}
	count := map[string]int{}
	for id, op := range b.ops {
		if op.Return == 0 || op.Outcome == "" || op.Call == 0 || op.Return < op.Call || op.Group == "" || op.Workload == "" {
			t.Errorf("%s is not complete: %+v", id, op)
		}
		if len(op.Error) > 200 {
			t.Errorf("%s has an error of %d bytes", id, len(op.Error))
		}
		if op.Kind == history.Commit && op.Outcome == "applied" && !b.told[id] {
			t.Errorf("%s was not written down before it was sent", id)
		}
		count[string(op.Kind)+" "+op.Outcome+" "+op.Reason]++
		if op.Forged {
			count["forged "+string(op.Kind)+" "+op.Outcome]++
		}
	}
	t.Logf("%v", count)
}

// applied returns the logical commits that were applied, by the id or key that is in their values.
func (b *book) applied() map[string]history.Op {
	m := map[string]history.Op{}
	for _, op := range b.of(history.Commit) {
		if op.Outcome == "applied" {
			m[cmp.Or(op.Key, op.ID)] = op
		}
	}
	return m
}
