package locking_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/locking/lockingtest"
	"github.com/fencegate/fencegate/locking/memlock"
	"github.com/fencegate/fencegate/storage"
	"github.com/fencegate/fencegate/storage/memstore"
)

var names atomic.Int64

func unique(_ testing.TB, prefix string) string { return fmt.Sprintf("%s:%d", prefix, names.Add(1)) }

func newStore(tb testing.TB) *storage.Store {
	tb.Helper()
	s, err := storage.New(memstore.New(nil), nil)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func newIssuer(tb testing.TB, b locking.Backend, o *locking.IssuerOptions, fences ...fencing.Fence) *locking.LocalIssuer {
	tb.Helper()
	i, err := locking.NewIssuer(b, fences, o)
	if err != nil {
		tb.Fatal(err)
	}
	return i
}

func TestLocalIssuer(t *testing.T) {
	t.Parallel()
	lockingtest.RunIssuer(t, lockingtest.IssuerHarness{
		New: func(tb testing.TB) (locking.Issuer, []fencing.Fence) {
			fences := []fencing.Fence{newStore(tb), newStore(tb)}
			return newIssuer(tb, memlock.New(), nil, fences...), fences
		},
		Unique: unique,
	})
}

// desk is an issuer with faults on both of its sides.
type desk struct {
	*testing.T
	i      *locking.LocalIssuer
	lock   *lockingtest.Flaky
	fence  *lockingtest.FlakyFence
	events *recorder
}

type recorder struct {
	mu   sync.Mutex
	list []fencing.Event
}

func (r *recorder) add(e fencing.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, e)
}

func (r *recorder) count(kind fencing.EventKind) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.list {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

func newDesk(t *testing.T) *desk {
	d := &desk{
		T: t, events: &recorder{},
		lock:  &lockingtest.Flaky{Backend: memlock.New()},
		fence: &lockingtest.FlakyFence{Fence: newStore(t)},
	}
	d.i = newIssuer(t, d.lock, &locking.IssuerOptions{Cleanup: 200 * time.Millisecond, OnEvent: d.events.add}, d.fence)
	return d
}

const resource = "coupon:42"

func request() locking.Request {
	return locking.Request{Resource: resource, Grant: fencing.NewGrant(), TTL: time.Minute}
}

func (d *desk) mark() fencing.Mark {
	d.Helper()
	m, err := d.fence.Fence.Mark(d.Context(), resource)
	if err != nil {
		d.Fatal(err)
	}
	return m
}

// wantRaisedOnce checks that no number was sent to the store as a raise twice.
func (d *desk) wantRaisedOnce() {
	d.Helper()
	seen := map[int64]bool{}
	for _, t := range d.fence.Raised() {
		if seen[t.Number] {
			d.Fatalf("number %d was sent as a raise twice", t.Number)
		}
		seen[t.Number] = true
	}
}

// wantGranted checks a grant whose token must be the store's mark.
func (d *desk) wantGranted(r locking.Request, number int64) {
	d.Helper()
	g, err := d.i.Grant(d.Context(), r)
	if err != nil {
		d.Fatalf("Grant = %v", err)
	}
	if g.Token.Number != number || d.mark().Current(g.Token) != nil {
		d.Fatalf("got %v under the mark %v, want number %d to be the mark", g.Token, d.mark(), number)
	}
	d.wantRaisedOnce()
}

// wantFree checks that a failed grant left neither a hold nor a live mark.
func (d *desk) wantFree() {
	d.Helper()
	st, err := d.lock.Status(d.Context(), resource)
	if err != nil || st.Held {
		d.Fatalf("after a failed grant: %+v, %v", st, err)
	}
	if m := d.mark(); !m.Retired {
		d.Fatalf("after a failed grant the mark %v is alive", m)
	}
	d.wantRaisedOnce()
}

func TestReissueAboveTheStoresMark(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	if err := d.fence.Fence.Raise(t.Context(), fencing.Token{Resource: resource, Number: 50, Grant: fencing.NewGrant()}); err != nil {
		t.Fatal(err)
	}
	d.wantGranted(request(), 51) // the lock store has forgotten everything: it drew 1 first
	if n := d.events.count(fencing.EventRegression); n != 1 {
		t.Errorf("%d regressions were reported, want 1", n)
	}
}

func TestLostReplyOfTheLockStore(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.lock.On("TryAcquire", lockingtest.LoseReply)
	d.wantGranted(request(), 2) // 1 may have been raised by the call that was lost
	if raised := d.fence.Raised(); len(raised) != 1 || raised[0].Number != 2 {
		t.Errorf("raises: %v, want only number 2", raised)
	}
}

func TestLostCallOfTheLockStore(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.lock.On("TryAcquire", lockingtest.LoseCall)
	d.wantGranted(request(), 1)
}

func TestLockStoreStaysSilent(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.lock.On("TryAcquire", lockingtest.LoseReply, lockingtest.LoseReply, lockingtest.LoseReply)
	_, err := d.i.Grant(t.Context(), request())
	if fencing.OutcomeOf(err) != fencing.Unknown {
		t.Fatalf("got %v, want an unknown outcome", err)
	}
	d.wantFree()
}

func TestLockStoreFails(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.lock.On("TryAcquire", lockingtest.FailBefore)
	_, err := d.i.Grant(t.Context(), request())
	if !errors.Is(err, fencing.ErrFailed) || fencing.OutcomeOf(err) != fencing.Failed {
		t.Fatalf("got %v, want failed", err)
	}
	d.wantFree()
}

func TestLockStoreFailsAfterALostReply(t *testing.T) {
	t.Parallel()
	for _, faults := range [][]lockingtest.Fault{
		{lockingtest.LoseReply, lockingtest.FailBefore},
		{lockingtest.LoseReply, lockingtest.LoseReply, lockingtest.FailBefore},
	} {
		d := newDesk(t)
		d.lock.On("TryAcquire", faults...)
		if _, err := d.i.Grant(t.Context(), request()); err == nil {
			t.Fatal("got a grant from a lock store that failed")
		}
		d.wantFree()
	}
}

func TestLostReplyOfAReissue(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.fence.On("Raise", lockingtest.LoseCall)
	d.lock.On("TryAcquire", lockingtest.None, lockingtest.LoseReply, lockingtest.FailBefore)
	if _, err := d.i.Grant(t.Context(), request()); err == nil {
		t.Fatal("got a grant from a lock store that failed")
	}
	d.wantFree() // the hold has another number than the one that was known
}

func TestLostReplyOfARaiseIsConfirmed(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.fence.On("Raise", lockingtest.LoseReply)
	d.wantGranted(request(), 1)
}

func TestLostRaiseIsReissuedNotRepeated(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.fence.On("Raise", lockingtest.LoseCall)
	d.wantGranted(request(), 2)
	if n := d.events.count(fencing.EventRegression); n != 0 {
		t.Errorf("a lost raise was reported as %d regressions", n)
	}
}

func TestRepeatConfirmsAndDoesNotRaise(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	r := request()
	d.wantGranted(r, 1)
	d.wantGranted(r, 1)
	if n := len(d.fence.Raised()); n != 1 {
		t.Errorf("%d raises for one number, want 1", n)
	}
}

func TestRaiseFails(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.fence.On("Raise", lockingtest.FailBefore)
	_, err := d.i.Grant(t.Context(), request())
	if fencing.OutcomeOf(err) != fencing.Failed {
		t.Fatalf("got %v, want failed", err)
	}
	d.wantFree()
	if m := d.mark(); m.Number != 1 {
		t.Errorf("the mark is %v: number 1 was not evicted, and a late raise of it would be accepted", m)
	}
}

func TestRaiseHangs(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.fence.On("Raise", lockingtest.Hang)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := d.i.Grant(ctx, request())
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v, want the deadline", err)
	}
	d.wantFree()
}

func TestStoresRefuseEveryNumber(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.fence.On("Raise", lockingtest.LoseCall, lockingtest.LoseCall, lockingtest.LoseCall)
	_, err := d.i.Grant(t.Context(), request())
	if !errors.Is(err, locking.ErrUnsettled) {
		t.Fatalf("got %v, want ErrUnsettled", err)
	}
	d.wantFree()
}

func TestReleaseFreesThoughARetireFails(t *testing.T) {
	t.Parallel()
	for _, fault := range []lockingtest.Fault{lockingtest.FailBefore, lockingtest.LoseCall, lockingtest.Hang} {
		d := newDesk(t)
		g, err := d.i.Grant(t.Context(), request())
		if err != nil {
			t.Fatal(err)
		}
		d.fence.On("Retire", fault)
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		freed, err := d.i.Release(ctx, g.Token)
		cancel()
		if !freed || err == nil {
			t.Fatalf("fault %d: Release = %v, %v, want true beside the error", fault, freed, err)
		}
		d.wantGranted(request(), 2)
	}
}

func TestGrantThatComesTooLate(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	slow := &slowFence{Fence: d.fence, by: 150 * time.Millisecond}
	d.i = newIssuer(t, d.lock, nil, slow)
	r := request()
	r.TTL = 100 * time.Millisecond
	if _, err := d.i.Grant(t.Context(), r); !errors.Is(err, locking.ErrLost) {
		t.Fatalf("got %v, want ErrLost: the hold had expired before the raise was done", err)
	}
	d.wantFree()
}

type slowFence struct {
	fencing.Fence
	by time.Duration
}

func (f *slowFence) Raise(ctx context.Context, t fencing.Token) error {
	time.Sleep(f.by) // the store is slow; that is the case under test
	return f.Fence.Raise(ctx, t)
}

// TestWaitedEndsBeforeTheCall: what a slow store takes is not the holder's to add.
func TestWaitedEndsBeforeTheCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slow := &slowFence{Fence: newStore(t), by: time.Second}
		g, err := newIssuer(t, memlock.New(), nil, slow).Grant(t.Context(), request())
		if err != nil || g.Waited != 0 || g.ExpiresIn != time.Minute {
			t.Fatalf("got waited %v, expires in %v, %v; want 0 and the TTL", g.Waited, g.ExpiresIn, err)
		}
	})
}

// TestWaiterLooksWhenTheTimeIsUp: a waiter that looks rarely looks when the hold it waits
// for must be over.
func TestWaiterLooksWhenTheTimeIsUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		i := newIssuer(t, memlock.New(), &locking.IssuerOptions{Poll: time.Second})
		r := request()
		r.TTL = 40 * time.Second
		if _, err := i.Grant(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		r = request()
		r.Wait = -1
		if _, err := i.Grant(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took > 40*time.Second+100*time.Millisecond {
			t.Errorf("waited %v for a hold of 40 s", took)
		}
	})
}

// TestLeavingTheMiddleOfTheLine: who goes away must neither hold up nor let in the others.
func TestLeavingTheMiddleOfTheLine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		i := newIssuer(t, memlock.New(), nil)
		first, err := i.Grant(t.Context(), request())
		if err != nil {
			t.Fatal(err)
		}
		ctx, leave := context.WithCancel(t.Context())
		order := make(chan int, 3)
		for n, ctx := range []context.Context{t.Context(), ctx, t.Context()} {
			go func() {
				r := request()
				r.Wait = -1
				if g, err := i.Grant(ctx, r); err == nil {
					order <- n
					_, _ = i.Release(t.Context(), g.Token)
				} else {
					order <- -n
				}
			}()
			synctest.Wait()
		}
		leave()
		if got := <-order; got != -1 {
			t.Fatalf("%d came first, want the one who left", got)
		}
		if _, err := i.Release(t.Context(), first.Token); err != nil {
			t.Fatal(err)
		}
		if a, b := <-order, <-order; a != 0 || b != 2 {
			t.Fatalf("served in the order %d, %d, want 0, 2", a, b)
		}
	})
}

// TestEvictUpToTheStoresMark: the lock store may have forgotten a number that a store knows.
func TestEvictUpToTheStoresMark(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	if err := d.fence.Fence.Raise(t.Context(), fencing.Token{Resource: resource, Number: 50, Grant: fencing.NewGrant()}); err != nil {
		t.Fatal(err)
	}
	if err := d.i.Evict(t.Context(), resource, 51, "a test"); !errors.Is(err, fencing.ErrInvalid) {
		t.Fatalf("Evict above the mark = %v, want an *InvalidError", err)
	}
	if err := d.i.Evict(t.Context(), resource, 50, "a test"); err != nil {
		t.Fatal(err)
	}
	if m := d.mark(); m.Number != 50 || !m.Retired {
		t.Fatalf("the mark is %v, want 50, retired", m)
	}
}

func TestTwoStoresOneRefuses(t *testing.T) {
	t.Parallel()
	a, b := newStore(t), newStore(t)
	if err := b.Raise(t.Context(), fencing.Token{Resource: resource, Number: 7, Grant: fencing.NewGrant()}); err != nil {
		t.Fatal(err)
	}
	g, err := newIssuer(t, memlock.New(), nil, a, b).Grant(t.Context(), request())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []*storage.Store{a, b} {
		if m, err := s.Mark(t.Context(), resource); err != nil || m.Current(g.Token) != nil {
			t.Errorf("%v is not the mark of every store: %v, %v", g.Token, m, err)
		}
	}
}

func TestNewIssuerRefuses(t *testing.T) {
	t.Parallel()
	for name, build := range map[string]func() error{
		"no backend": func() error { _, err := locking.NewIssuer(nil, nil, nil); return err },
		"nil fence":  func() error { _, err := locking.NewIssuer(memlock.New(), []fencing.Fence{nil}, nil); return err },
		"poll": func() error {
			_, err := locking.NewIssuer(memlock.New(), nil, &locking.IssuerOptions{Poll: -1})
			return err
		},
		"poll beyond what keeps a place": func() error {
			_, err := locking.NewIssuer(memlock.New(), nil, &locking.IssuerOptions{Poll: locking.LookEvery + time.Millisecond})
			return err
		},
		"waiters": func() error {
			_, err := locking.NewIssuer(memlock.New(), nil, &locking.IssuerOptions{MaxWaiters: -1})
			return err
		},
		"cleanup": func() error {
			_, err := locking.NewIssuer(memlock.New(), nil, &locking.IssuerOptions{Cleanup: time.Hour})
			return err
		},
	} {
		if err := build(); !errors.Is(err, fencing.ErrInvalid) {
			t.Errorf("%s: got %v, want an *InvalidError", name, err)
		}
	}
}

func TestRequestHidesItsGrant(t *testing.T) {
	t.Parallel()
	r := request()
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		if out := fmt.Sprintf(verb, r); len(out) == 0 || contains(out, r.Grant) {
			t.Errorf("Sprintf(%q) shows the grant id: %s", verb, out)
		}
	}
	if out, err := json.Marshal(struct{ R locking.Request }{r}); err != nil || contains(string(out), r.Grant) {
		t.Errorf("JSON shows the grant id: %s, %v", out, err)
	}
}
