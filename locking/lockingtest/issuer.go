package lockingtest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/locking"
)

// IssuerHarness connects an issuer to the suite.
type IssuerHarness struct {
	// New returns an issuer and the stores that it is bound to, at least one.
	New func(tb testing.TB) (locking.Issuer, []fencing.Fence)
	// Unique returns a resource name that no other test uses.
	Unique func(tb testing.TB, prefix string) string
}

type issuerTest struct {
	IssuerHarness
	*testing.T
	i        locking.Issuer
	stores   []fencing.Fence
	resource string
}

// RunIssuer checks every promise of locking.Issuer, over whatever distance.
func RunIssuer(t *testing.T, h IssuerHarness) {
	for name, fn := range map[string]func(*issuerTest){
		"GrantRaisesFirst":         grantRaisesFirst,
		"GrantIsValid":             grantIsValid,
		"ReleaseRetiresAndFrees":   releaseRetires,
		"LateReleaseTouchesNobody": lateRelease,
		"SameGrantSameHold":        issuerSameGrant,
		"EndedGrantIsLost":         issuerEndedGrant,
		"HeldWithoutWait":          heldWithoutWait,
		"WaitEndsWithTheRelease":   waitEndsWithRelease,
		"WaitEndsWithTheExpiry":    waitEndsWithExpiry,
		"WaitRunsOut":              waitRunsOut,
		"WaitEndsWithItsContext":   waitEndsWithContext,
		"FirstComeFirstServed":     firstCome,
		"RenewExtends":             issuerRenew,
		"EvictEndsInTheStores":     issuerEvict,
		"EvictAboveIsRefused":      issuerEvictAbove,
		"StatusAndList":            issuerStatus,
		"BadInput":                 issuerBadInput,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			it := &issuerTest{IssuerHarness: h, T: t, resource: h.Unique(t, "issue")}
			it.i, it.stores = h.New(t)
			fn(it)
		})
	}
}

func (t *issuerTest) request() locking.Request {
	return locking.Request{Resource: t.resource, Label: "tester", TTL: long}
}

func (t *issuerTest) grant(r locking.Request) locking.Granted {
	t.Helper()
	g, err := t.i.Grant(t.Context(), r)
	if err != nil {
		t.Fatalf("Grant(%v) = %v", r, err)
	}
	return g
}

func (t *issuerTest) wantMark(want fencing.Mark) {
	t.Helper()
	for _, s := range t.stores {
		got, err := s.Mark(t.Context(), t.resource)
		if err != nil {
			t.Fatal(err)
		}
		if got.Number != want.Number || got.Retired != want.Retired || !got.Retired && got.Grant != want.Grant {
			t.Fatalf("a store's mark is %v, want %v", got, want)
		}
	}
}

func (t *issuerTest) wantErr(err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("got error %v, want %v", err, want)
	}
}

func (t *issuerTest) release(tok fencing.Token) {
	t.Helper()
	if freed, err := t.i.Release(t.Context(), tok); !freed || err != nil {
		t.Fatalf("Release(%v) = %v, %v", tok, freed, err)
	}
}

// untilWaiting waits until n callers wait.
func (t *issuerTest) untilWaiting(n int) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		st, err := t.i.Status(t.Context(), t.resource)
		if err != nil {
			t.Fatal(err)
		}
		if st.Waiters == n {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d callers wait, want %d", st.Waiters, n)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func grantRaisesFirst(t *issuerTest) {
	a := t.grant(t.request())
	t.wantMark(fencing.Mark{Number: a.Token.Number, Grant: a.Token.Grant})
	t.release(a.Token)
	b := t.grant(t.request())
	if b.Token.Number <= a.Token.Number {
		t.Fatalf("number %d came after %d", b.Token.Number, a.Token.Number)
	}
	t.wantMark(fencing.Mark{Number: b.Token.Number, Grant: b.Token.Grant})
}

func grantIsValid(t *issuerTest) {
	g := t.grant(t.request())
	if err := errors.Join(g.Token.Validate(), fencing.ValidateGrant(g.Token.Grant)); err != nil {
		t.Fatal(err)
	}
	if g.Token.Resource != t.resource || g.ExpiresIn <= 0 || g.ExpiresIn > long || g.Waited < 0 || g.Waited > time.Minute {
		t.Fatalf("got %v, expires in %v, waited %v", g.Token, g.ExpiresIn, g.Waited)
	}
}

func releaseRetires(t *issuerTest) {
	g := t.grant(t.request())
	t.release(g.Token)
	t.wantMark(fencing.Mark{Number: g.Token.Number, Retired: true})
	if freed, err := t.i.Release(t.Context(), g.Token); freed || err != nil {
		t.Fatalf("a second Release = %v, %v, want false, nil", freed, err)
	}
}

func lateRelease(t *issuerTest) {
	a := t.grant(t.request())
	t.release(a.Token)
	b := t.grant(t.request())
	if freed, err := t.i.Release(t.Context(), a.Token); freed || err != nil {
		t.Fatalf("a late Release = %v, %v, want false, nil", freed, err)
	}
	t.wantMark(fencing.Mark{Number: b.Token.Number, Grant: b.Token.Grant})
	if err := t.i.Renew(t.Context(), long, []fencing.Token{b.Token})[0]; err != nil {
		t.Fatalf("the successor's hold was touched: %v", err)
	}
}

func issuerSameGrant(t *issuerTest) {
	r := t.request()
	r.Grant = fencing.NewGrant()
	first, again := t.grant(r), t.grant(r)
	if first.Token != again.Token || first.Token.Grant != r.Grant {
		t.Fatalf("got %v, then %v for one grant id", first.Token, again.Token)
	}
	t.wantMark(fencing.Mark{Number: first.Token.Number, Grant: r.Grant})
}

func issuerEndedGrant(t *issuerTest) {
	r := t.request()
	r.Grant = fencing.NewGrant()
	t.release(t.grant(r).Token)
	_, err := t.i.Grant(t.Context(), r)
	t.wantErr(err, locking.ErrLost)
}

func heldWithoutWait(t *issuerTest) {
	g := t.grant(t.request())
	_, err := t.i.Grant(t.Context(), t.request())
	held, ok := errors.AsType[*locking.HeldError](err)
	if !ok || held.Resource != t.resource || held.Number != g.Token.Number || held.Label != "tester" || held.Remaining <= 0 {
		t.Fatalf("got %v, want a *HeldError that describes the holder", err)
	}
	t.wantMark(fencing.Mark{Number: g.Token.Number, Grant: g.Token.Grant})
}

// waiting begins a Grant that waits, and returns where its answer comes.
func (t *issuerTest) waiting(ctx context.Context, r locking.Request) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := t.i.Grant(ctx, r)
		done <- err
	}()
	return done
}

func waitEndsWithRelease(t *issuerTest) {
	g := t.grant(t.request())
	r := t.request()
	r.Wait = patience
	done := t.waiting(t.Context(), r)
	t.untilWaiting(1)
	t.release(g.Token)
	if err := <-done; err != nil {
		t.Fatalf("the waiter got %v", err)
	}
	t.untilWaiting(0)
}

func waitEndsWithExpiry(t *issuerTest) {
	r := t.request()
	r.TTL = short
	t.grant(r)
	r = t.request()
	r.Wait = -1
	g := t.grant(r)
	t.wantMark(fencing.Mark{Number: g.Token.Number, Grant: g.Token.Grant})
	if g.Waited > 20*time.Second || g.ExpiresIn <= 0 {
		t.Fatalf("got waited %v, expires in %v", g.Waited, g.ExpiresIn)
	}
}

func waitRunsOut(t *issuerTest) {
	t.grant(t.request())
	r := t.request()
	r.Wait = 50 * time.Millisecond
	start := time.Now()
	_, err := t.i.Grant(t.Context(), r)
	t.wantErr(err, locking.ErrHeld)
	if took := time.Since(start); took < r.Wait {
		t.Fatalf("gave up after %v, before its wait of %v", took, r.Wait)
	}
	t.untilWaiting(0)
}

func waitEndsWithContext(t *issuerTest) {
	g := t.grant(t.request())
	ctx, cancel := context.WithCancel(t.Context())
	r := t.request()
	r.Wait = -1
	done := t.waiting(ctx, r)
	t.untilWaiting(1)
	cancel()
	t.wantErr(<-done, context.Canceled)
	t.untilWaiting(0)
	t.release(g.Token)
	// Nothing may be left of the one who went away.
	next := t.grant(t.request())
	t.wantMark(fencing.Mark{Number: next.Token.Number, Grant: next.Token.Grant})
}

func firstCome(t *issuerTest) {
	g := t.grant(t.request())
	const waiters = 5
	order := make(chan int, waiters)
	for n := range waiters {
		go func() {
			r := t.request()
			r.Wait = patience
			g, err := t.i.Grant(t.Context(), r)
			if err != nil {
				t.Errorf("waiter %d: %v", n, err)
			}
			order <- n
			_, _ = t.i.Release(t.Context(), g.Token)
		}()
		t.untilWaiting(n + 1)
	}
	t.release(g.Token)
	for want := range waiters {
		if got := <-order; got != want {
			t.Fatalf("waiter %d was served in place of %d", got, want)
		}
	}
}

func issuerRenew(t *issuerTest) {
	r := t.request()
	r.TTL = short
	g := t.grant(r)
	other := g.Token
	other.Grant = fencing.NewGrant()
	verdicts := t.i.Renew(t.Context(), long, []fencing.Token{other, g.Token})
	t.wantErr(verdicts[0], locking.ErrLost)
	if verdicts[1] != nil {
		t.Fatalf("Renew = %v", verdicts[1])
	}
	st, err := t.i.Status(t.Context(), t.resource)
	if err != nil || st.Remaining < 10*time.Second {
		t.Fatalf("after a renewal to %v: %+v, %v", long, st, err)
	}
}

func issuerEvict(t *issuerTest) {
	g := t.grant(t.request())
	if err := t.i.Evict(t.Context(), t.resource, g.Token.Number, "a test"); err != nil {
		t.Fatal(err)
	}
	t.wantMark(fencing.Mark{Number: g.Token.Number, Retired: true})
	t.wantErr(t.i.Renew(t.Context(), long, []fencing.Token{g.Token})[0], locking.ErrLost)
	next := t.grant(t.request())
	if err := t.i.Evict(t.Context(), t.resource, g.Token.Number, "too late"); err != nil {
		t.Fatal(err)
	}
	t.wantMark(fencing.Mark{Number: next.Token.Number, Grant: next.Token.Grant})
}

func issuerEvictAbove(t *issuerTest) {
	g := t.grant(t.request())
	t.wantErr(t.i.Evict(t.Context(), t.resource, g.Token.Number+1, "a test"), fencing.ErrInvalid)
	t.wantErr(t.i.Evict(t.Context(), t.resource, fencing.MaxNumber, "a test"), fencing.ErrInvalid)
	t.wantMark(fencing.Mark{Number: g.Token.Number, Grant: g.Token.Grant})
}

func issuerStatus(t *issuerTest) {
	g := t.grant(t.request())
	st, err := t.i.Status(t.Context(), t.resource)
	if err != nil || st.Resource != t.resource || st.Number != g.Token.Number || !st.Held || st.Label != "tester" || st.Remaining <= 0 {
		t.Fatalf("Status = %+v, %v", st, err)
	}
	list, err := t.i.List(t.Context(), t.resource, "", 10)
	if err != nil || len(list) != 1 || list[0].Resource != t.resource || list[0].Number != g.Token.Number {
		t.Fatalf("List = %+v, %v", list, err)
	}
}

func issuerBadInput(t *issuerTest) {
	ctx := t.Context()
	good := t.request()
	for name, change := range map[string]func(*locking.Request){
		"no resource":    func(r *locking.Request) { r.Resource = "" },
		"bad resource":   func(r *locking.Request) { r.Resource = "a/b" },
		"short grant":    func(r *locking.Request) { r.Grant = "ABC" },
		"no TTL":         func(r *locking.Request) { r.TTL = 0 },
		"tiny TTL":       func(r *locking.Request) { r.TTL = locking.MinTTL - time.Millisecond },
		"huge TTL":       func(r *locking.Request) { r.TTL = locking.MaxTTL + time.Millisecond },
		"fraction of ms": func(r *locking.Request) { r.TTL = time.Second + time.Microsecond },
		"bad label":      func(r *locking.Request) { r.Label = "a\nb" },
	} {
		r := good
		change(&r)
		if _, err := t.i.Grant(ctx, r); !errors.Is(err, fencing.ErrInvalid) {
			t.Errorf("%s: got %v, want an *InvalidError", name, err)
		}
	}
	plain := fencing.Token{Resource: t.resource, Number: 1}
	if _, err := t.i.Release(ctx, plain); !errors.Is(err, fencing.ErrInvalid) {
		t.Errorf("Release of a plain number = %v, want an *InvalidError", err)
	}
	if err := t.i.Renew(ctx, long, []fencing.Token{plain})[0]; !errors.Is(err, fencing.ErrInvalid) {
		t.Errorf("Renew of a plain number = %v, want an *InvalidError", err)
	}
	held := t.grant(t.request()).Token
	if got := t.i.Renew(ctx, long, []fencing.Token{plain, held}); !errors.Is(got[0], fencing.ErrInvalid) || got[1] != nil {
		t.Errorf("Renew of a bad token and a good one = %v, want an *InvalidError and none", got)
	}
	t.release(held)
	t.resource = t.Unique(t, "issue")
	if err := t.i.Renew(ctx, 0, []fencing.Token{{Resource: t.resource, Number: 1, Grant: fencing.NewGrant()}})[0]; !errors.Is(err, fencing.ErrInvalid) {
		t.Errorf("Renew without TTL = %v, want an *InvalidError", err)
	}
	if err := t.i.Evict(ctx, t.resource, 0, "x"); !errors.Is(err, fencing.ErrInvalid) {
		t.Errorf("Evict of number 0 = %v, want an *InvalidError", err)
	}
	if _, err := t.i.Status(ctx, "a/b"); !errors.Is(err, fencing.ErrInvalid) {
		t.Errorf("Status of a bad name = %v, want an *InvalidError", err)
	}
	if _, err := t.i.List(ctx, "", "", 0); !errors.Is(err, fencing.ErrInvalid) {
		t.Errorf("List with limit 0 = %v, want an *InvalidError", err)
	}
	if st, err := t.i.Status(ctx, t.resource); err != nil || st != (locking.Status{Resource: t.resource}) {
		t.Errorf("bad input left %+v, %v", st, err)
	}
}
