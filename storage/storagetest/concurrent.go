package storagetest

import (
	"errors"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/storage"
)

const writers = 16

// epochs lets the writers of two tokens write at once while the newer one is raised,
// several times over. A counter that every write adds to tells the order in which the
// store accepted them.
func epochs(r *run) {
	const last = 8
	e := &epochRun{run: r, resource: r.resource()}
	counted := make([]chan struct{}, last+1) // closed when a token has written enough
	var group sync.WaitGroup
	defer group.Wait()
	defer e.stop.Store(true)
	for n := int64(1); n <= last; n++ {
		t := token(e.resource, n)
		counted[n] = make(chan struct{})
		left := new(atomic.Int64)
		left.Store(2 * writers)
		for range writers / 2 {
			group.Go(func() { e.write(t, left, counted[n]) })
		}
		group.Go(func() { e.read(t) })
		r.raise(t)
		e.raised.Store(n)
		select {
		case <-counted[n]:
		case <-time.After(patience):
			r.Errorf("the writers of %d did not come through", n)
		}
		if r.Failed() {
			break
		}
	}
	e.stop.Store(true)
	group.Wait()
	slices.SortFunc(e.accepted, func(a, b accepted) int { return int(a.sum - b.sum) })
	for i, a := range e.accepted {
		if a.sum != int64(i+1) || a.version != a.sum {
			r.Fatalf("the %d. accepted write got sum %d, version %d: want both %d", i+1, a.sum, a.version, i+1)
		}
		if i > 0 && a.number < e.accepted[i-1].number {
			r.Fatalf("a write of %d was accepted after one of %d", a.number, e.accepted[i-1].number)
		}
	}
}

type accepted struct{ sum, version, number int64 }

type epochRun struct {
	*run
	resource string
	raised   atomic.Int64 // the number of the last raise that returned
	stop     atomic.Bool
	mu       sync.Mutex // guards accepted
	accepted []accepted
}

// write writes with t until t is superseded.
func (e *epochRun) write(t fencing.Token, left *atomic.Int64, counted chan struct{}) {
	for !e.stop.Load() {
		before := e.raised.Load()
		res, err := e.try([]storage.Op{
			storage.Add(e.resource, "log", 1, 0),
			storage.Put(e.resource, "owner", storage.Counter(t.Number)),
		}, t)
		if !e.carryOn(t, err) {
			return
		}
		if err != nil {
			continue
		}
		if before > t.Number {
			e.Errorf("a write of %d began after %d was raised, and was accepted", t.Number, before)
		}
		e.mu.Lock()
		e.accepted = append(e.accepted, accepted{res.Ops[0].Counter, res.Ops[0].Version, t.Number})
		e.mu.Unlock()
		if left.Add(-1) == 0 {
			close(counted)
		}
	}
}

// read reads with t until t is superseded: it must not see a newer token's write.
func (e *epochRun) read(t fencing.Token) {
	for !e.stop.Load() {
		rec, err := e.s.Store.GetFenced(e.Context(), t, "owner")
		if errors.Is(err, storage.ErrNotFound) {
			continue
		}
		if !e.carryOn(t, err) {
			return
		}
		if err != nil {
			continue
		}
		if owner, _ := storage.ParseCounter(rec.Value); owner > t.Number {
			e.Errorf("a fenced read with %d saw what %d had written", t.Number, owner)
		}
	}
}

// carryOn tells whether t may yet, or again, be accepted.
func (e *epochRun) carryOn(t fencing.Token, err error) bool {
	if err == nil {
		return true
	}
	stale, ok := errors.AsType[*fencing.StaleError](err)
	switch {
	case ok && stale.Reason == fencing.Superseded && stale.Highest > t.Number:
		return false
	case ok && stale.Reason == fencing.Ungranted && stale.Highest < t.Number, fencing.OutcomeOf(err) == fencing.Failed:
		time.Sleep(200 * time.Microsecond) // too early: do not wear the store out
		return true
	}
	e.Errorf("with %v: got %v, want accepted, superseded, or ungranted before its raise", t, err)
	return false
}

// concurrentAdds sells 100 of something to 160 buyers.
func concurrentAdds(r *run) {
	const stock, each = 100, 10
	t := r.held(7)
	r.put(t, "stock", strconv.Itoa(stock))
	var mu sync.Mutex
	sums, versions := map[int64]bool{}, map[int64]bool{}
	var soldOut int
	r.parallel(writers, func(int) {
		for range each {
			res, err := r.tryAdd(t, "stock", -1, 0)
			mu.Lock()
			switch {
			case err == nil:
				sums[res.Ops[0].Counter], versions[res.Ops[0].Version] = true, true
			case errors.Is(err, storage.ErrBelowMinimum):
				soldOut++
			default:
				r.Errorf("got %v, want applied or below minimum", err)
			}
			mu.Unlock()
		}
	})
	if len(sums) != stock || len(versions) != stock || soldOut != writers*each-stock {
		r.Errorf("got %d sums, %d versions, %d times sold out, want %d, %d, %d",
			len(sums), len(versions), soldOut, stock, stock, writers*each-stock)
	}
	r.wantRecord(t.Resource, "stock", "0", stock+1)
}

// ownMerits mixes good commits with refused ones, which a backend may take together.
func ownMerits(r *run) {
	const each = 6
	good := r.held(5)
	old := token(good.Resource, 4)
	r.parallel(writers, func(i int) {
		for n := range each {
			key := "k" + strconv.Itoa(i) + "-" + strconv.Itoa(n)
			switch i % 4 {
			case 0:
				r.wantStale(r.tryPut(old, key, "old"), old, 5, fencing.Superseded)
			case 1:
				_, err := r.try([]storage.Op{
					storage.Put(good.Resource, key, []byte("refused")),
					storage.Require(good.Resource, "never", 3),
				}, good)
				r.wantRefused(err, storage.RefusedError{
					Op: 1, Resource: good.Resource, Key: "never", Reason: storage.ErrVersionMismatch, Want: 3,
				})
			default:
				res, err := r.try([]storage.Op{
					storage.Put(good.Resource, key, []byte(key)), storage.Add(good.Resource, "sum", 1, 0),
				}, good)
				if err != nil || res.Ops[0].Version != 1 {
					r.Errorf("got %+v, %v, want version 1", res.Ops, err)
				}
			}
		}
	})
	want := writers / 2 * each
	r.wantRecord(good.Resource, "sum", strconv.Itoa(want), int64(want))
	list, err := r.s.Store.List(r.Context(), good.Resource, "k", "", 1000)
	r.ok(err, "list")
	if len(list) != want {
		r.Errorf("got %d records, want %d", len(list), want)
	}
	for _, rec := range list {
		if string(rec.Value) != rec.Key {
			r.Errorf("got %s = %q, want its key", rec.Key, rec.Value)
		}
	}
}

// transfers moves money round three accounts in both directions: nothing may get lost,
// and commits that take the same resources may not block each other for good.
func transfers(r *run) {
	const each, money = 6, 30
	base := r.resource()
	var tokens []fencing.Token
	for _, suffix := range []string{"-a", "-b", "-c"} {
		t := r.raised(base+suffix, 3)
		r.put(t, "money", strconv.Itoa(money))
		tokens = append(tokens, t)
	}
	r.parallel(writers/2, func(i int) {
		for n := range each {
			from, to := tokens[(i+n)%3], tokens[(i+n+1+i%2)%3]
			for deadline := time.Now().Add(patience); ; {
				_, err := r.try([]storage.Op{
					storage.Add(from.Resource, "money", -1, 0), storage.Add(to.Resource, "money", 1, 0),
				}, from, to)
				if fencing.OutcomeOf(err) == fencing.Failed && time.Now().Before(deadline) {
					continue
				}
				if err != nil {
					r.Errorf("transfer: %v", err)
				}
				break
			}
		}
	})
	var sum, changes int64
	for _, t := range tokens {
		rec, err := r.s.Store.GetFenced(r.Context(), t, "money")
		r.ok(err, "fenced read")
		n, _ := storage.ParseCounter(rec.Value)
		sum += n
		changes += rec.Version - 1
	}
	if sum != 3*money || changes != writers/2*each*2 {
		r.Errorf("got %d money after %d changes, want %d after %d", sum, changes, 3*money, writers/2*each*2)
	}
}

// batch gives the backend several commits at once. Each is judged alone, but they are
// applied one after the other: adds to one counter all count.
func batch(r *run) {
	t := r.held(5)
	old := token(t.Resource, 4)
	other := r.held(9)
	add := storage.Commit{Tokens: []fencing.Token{t}, Ops: []storage.Op{storage.Add(t.Resource, "sum", 1, 0)}}
	both := []fencing.Token{t, other}
	if other.Resource < t.Resource {
		both = []fencing.Token{other, t}
	}
	out := r.s.Backend.Apply(r.Context(), []storage.Commit{
		add,
		{Tokens: []fencing.Token{old}, Ops: []storage.Op{storage.Put(t.Resource, "old", nil)}},
		add,
		{Tokens: []fencing.Token{t}, Ops: []storage.Op{storage.Put(t.Resource, "half", nil), storage.Require(t.Resource, "x", 2)}},
		{Tokens: both, Ops: []storage.Op{storage.Put(other.Resource, "two", nil), storage.Add(t.Resource, "sum", 1, 0)}},
		add,
	})
	if len(out) != 6 {
		r.Fatalf("got %d outcomes for 6 commits", len(out))
	}
	r.wantStale(out[1].Err, old, 5, fencing.Superseded)
	r.wantRefused(out[3].Err, storage.RefusedError{
		Op: 1, Resource: t.Resource, Key: "x", Reason: storage.ErrVersionMismatch, Want: 2,
	})
	var sums []int64
	for _, i := range []int{0, 2, 4, 5} {
		if out[i].Err != nil {
			r.Errorf("commit %d: got %v, want applied", i, out[i].Err)
			continue
		}
		ops := out[i].Result.Ops
		sums = append(sums, ops[len(ops)-1].Counter)
	}
	slices.Sort(sums)
	if !slices.Equal(sums, []int64{1, 2, 3, 4}) {
		r.Errorf("got the sums %v, want 1 to 4", sums)
	}
	r.wantRecord(t.Resource, "sum", "4", 4)
	r.wantRecord(other.Resource, "two", "", 1)
	r.wantAbsent(t.Resource, "old")
	r.wantAbsent(t.Resource, "half")
	if out := r.s.Backend.Apply(r.Context(), nil); len(out) != 0 {
		r.Errorf("got %d outcomes for no commits", len(out))
	}
}

// parallel runs f n times at once and waits for all. Within f, Fatal must not be called.
func (r *run) parallel(n int, f func(i int)) {
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() { f(i) })
	}
	group.Wait()
}
