// Package lockingtest holds the conformance suites for lock stores (RunBackend) and for
// issuers (RunIssuer), and Flaky, which loses calls and replies on purpose.
package lockingtest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/locking"
)

// BackendHarness connects a lock store to the suite.
type BackendHarness struct {
	// New returns a backend. Backends of one test may share a server: every test has
	// resources of its own.
	New func(tb testing.TB) locking.Backend
	// Unique returns a resource name that no other test uses.
	Unique func(tb testing.TB, prefix string) string
}

// long is a TTL that no test outlives, short one that a test waits for.
const (
	long  = time.Minute
	short = 150 * time.Millisecond
)

type backendTest struct {
	BackendHarness
	*testing.T
	b        locking.Backend
	resource string
}

// RunBackend checks every promise of locking.Backend.
func RunBackend(t *testing.T, h BackendHarness) {
	for name, fn := range map[string]func(*backendTest){
		"NumbersIncrease":              numbersIncrease,
		"FloorIsExceeded":              floorIsExceeded,
		"HeldByAnother":                heldByAnother,
		"SameGrantSameHold":            sameGrantSameHold,
		"SameGrantAboveFloor":          sameGrantAboveFloor,
		"EndedGrantIsLost":             endedGrantIsLost,
		"RenewExtends":                 renewExtends,
		"RenewNeverShortens":           renewNeverShortens,
		"RenewMatchesNumberAndGrant":   renewMatches,
		"ReleaseMatchesNumberAndGrant": releaseMatches,
		"EvictByNumber":                evictByNumber,
		"StatusShowsNoSecret":          status,
		"List":                         list,
		"NumbersRunOut":                numbersRunOut,
		"BigNumbersAreExact":           bigNumbers,
		"OneWinner":                    oneWinner,
		"EndedContextTakesNothing":     endedContext,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fn(&backendTest{BackendHarness: h, T: t, b: h.New(t), resource: h.Unique(t, "lock")})
		})
	}
}

func (t *backendTest) request() locking.Request {
	return locking.Request{Resource: t.resource, Grant: fencing.NewGrant(), Label: "tester", TTL: long}
}

func (t *backendTest) try(r locking.Request) (locking.Hold, error) {
	return t.b.TryAcquire(t.Context(), r)
}

func (t *backendTest) must(r locking.Request) locking.Hold {
	t.Helper()
	h, err := t.try(r)
	if err != nil {
		t.Fatalf("TryAcquire(%v) = %v", r, err)
	}
	return h
}

func (t *backendTest) wantErr(err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("got error %v, want %v", err, want)
	}
}

func (t *backendTest) wantNumber(h locking.Hold, want int64) {
	t.Helper()
	if h.Token.Number != want || h.Token.Resource != t.resource {
		t.Fatalf("got %v, want number %d", h.Token, want)
	}
}

func (t *backendTest) release(tok fencing.Token, want bool) {
	t.Helper()
	freed, err := t.b.Release(t.Context(), tok)
	if err != nil || freed != want {
		t.Fatalf("Release(%v) = %v, %v, want %v", tok, freed, err, want)
	}
}

func (t *backendTest) renew(ttl time.Duration, held ...fencing.Token) []error {
	t.Helper()
	verdicts := t.b.Renew(t.Context(), ttl, held)
	if len(verdicts) != len(held) {
		t.Fatalf("Renew of %d tokens returned %d verdicts", len(held), len(verdicts))
	}
	return verdicts
}

func (t *backendTest) status() locking.Status {
	t.Helper()
	st, err := t.b.Status(t.Context(), t.resource)
	if err != nil {
		t.Fatalf("Status: %v", err)
	}
	return st
}

// untilFree waits until a hold has expired.
func (t *backendTest) untilFree() {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); t.status().Held; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the hold did not expire")
		}
	}
}

func numbersIncrease(t *backendTest) {
	h := t.must(t.request())
	t.wantNumber(h, 1)
	if !h.Drawn || h.Remaining <= 0 || h.Remaining > long {
		t.Fatalf("got drawn %v, remaining %v, want a fresh hold of %v", h.Drawn, h.Remaining, long)
	}
	t.release(h.Token, true)

	r := t.request()
	r.TTL = short
	h = t.must(r)
	t.wantNumber(h, 2)
	t.untilFree()

	h = t.must(t.request())
	t.wantNumber(h, 3)
	if err := t.b.Evict(t.Context(), t.resource, 3); err != nil {
		t.Fatal(err)
	}
	t.wantNumber(t.must(t.request()), 4)
}

func floorIsExceeded(t *backendTest) {
	r := t.request()
	r.Floor = 32
	h := t.must(r)
	t.wantNumber(h, 33)
	t.release(h.Token, true)
	r = t.request()
	r.Floor = 5
	t.wantNumber(t.must(r), 34)
}

func heldByAnother(t *backendTest) {
	h := t.must(t.request())
	_, err := t.try(t.request())
	held, ok := errors.AsType[*locking.HeldError](err)
	if !ok {
		t.Fatalf("got %v, want a *HeldError", err)
	}
	if held.Resource != t.resource || held.Number != h.Token.Number || held.Label != "tester" || held.Remaining <= 0 || held.Remaining > long {
		t.Fatalf("got %+v, want the holder's number, label and remaining time", held)
	}
	r := t.request()
	r.Floor = 100
	_, err = t.try(r)
	t.wantErr(err, locking.ErrHeld)
	if st := t.status(); st.Number != h.Token.Number {
		t.Fatalf("a refused attempt moved the number to %d", st.Number)
	}
}

func sameGrantSameHold(t *backendTest) {
	r := t.request()
	r.TTL = 20 * time.Second
	first := t.must(r)
	r.TTL = long
	again := t.must(r)
	if again.Token != first.Token || again.Drawn {
		t.Fatalf("got %v (drawn %v), want %v again, not drawn", again.Token, again.Drawn, first.Token)
	}
	if again.Remaining > 20*time.Second {
		t.Fatalf("the repeat extended the hold to %v", again.Remaining)
	}
}

func sameGrantAboveFloor(t *backendTest) {
	r := t.request()
	r.TTL = 20 * time.Second
	first := t.must(r)
	r.TTL, r.Floor = long, first.Token.Number
	next := t.must(r)
	t.wantNumber(next, 2)
	if !next.Drawn || next.Token.Grant != r.Grant {
		t.Fatalf("got drawn %v, want the same grant under a number that this call drew", next.Drawn)
	}
	if next.Remaining > 20*time.Second {
		t.Fatalf("the re-issue extended the hold to %v", next.Remaining)
	}
	if again := t.must(r); again.Token != next.Token || again.Drawn {
		t.Fatalf("got %v (drawn %v), want %v again, not drawn", again.Token, again.Drawn, next.Token)
	}
	t.release(first.Token, false)
	t.release(next.Token, true)
}

func endedGrantIsLost(t *backendTest) {
	r := t.request()
	h := t.must(r)
	t.release(h.Token, true)
	_, err := t.try(r)
	t.wantErr(err, locking.ErrLost)
	r.Floor = 100
	_, err = t.try(r)
	t.wantErr(err, locking.ErrLost)

	r = t.request()
	r.TTL = short
	t.must(r)
	t.untilFree()
	_, err = t.try(r)
	t.wantErr(err, locking.ErrLost)

	r = t.request()
	h = t.must(r)
	if err := t.b.Evict(t.Context(), t.resource, h.Token.Number); err != nil {
		t.Fatal(err)
	}
	_, err = t.try(r)
	t.wantErr(err, locking.ErrLost)
	if st := t.status(); st.Held {
		t.Fatal("the lock is held by a grant that has ended")
	}
}

func renewExtends(t *backendTest) {
	r := t.request()
	r.TTL = short
	h := t.must(r)
	if err := t.renew(long, h.Token)[0]; err != nil {
		t.Fatalf("Renew = %v", err)
	}
	if st := t.status(); !st.Held || st.Remaining <= time.Second || st.Remaining > long {
		t.Fatalf("after a renewal to %v got %+v", long, st)
	}
}

func renewNeverShortens(t *backendTest) {
	h := t.must(t.request())
	if err := t.renew(locking.MinTTL, h.Token)[0]; err != nil {
		t.Fatalf("Renew = %v", err)
	}
	if st := t.status(); st.Remaining < long/2 {
		t.Fatalf("a shorter renewal left %v of %v", st.Remaining, long)
	}
}

func renewMatches(t *backendTest) {
	held := t.must(t.request()).Token
	ended := fencing.Token{Resource: t.Unique(t, "lock"), Number: 1, Grant: fencing.NewGrant()}
	otherNumber, otherGrant := held, held
	otherNumber.Number++
	otherGrant.Grant = fencing.NewGrant()
	got := t.renew(long, ended, held, otherNumber, otherGrant)
	for i, want := range []error{locking.ErrLost, nil, locking.ErrLost, locking.ErrLost} {
		if !errors.Is(got[i], want) {
			t.Errorf("verdict %d = %v, want %v", i, got[i], want)
		}
	}
	t.release(held, true)
	t.wantErr(t.renew(long, held)[0], locking.ErrLost)
	if t.status().Held {
		t.Fatal("a renewal revived a released hold")
	}
	r := t.request()
	r.TTL = short
	expired := t.must(r).Token
	t.untilFree()
	t.wantErr(t.renew(long, expired)[0], locking.ErrLost)
	if t.status().Held {
		t.Fatal("a renewal revived an expired hold")
	}
	if got := t.b.Renew(t.Context(), long, nil); len(got) != 0 {
		t.Errorf("Renew of nothing = %v", got)
	}
}

func releaseMatches(t *backendTest) {
	held := t.must(t.request()).Token
	otherNumber, otherGrant := held, held
	otherNumber.Number++
	otherGrant.Grant = fencing.NewGrant()
	t.release(otherNumber, false)
	t.release(otherGrant, false)
	if !t.status().Held {
		t.Fatal("a release ended another hold")
	}
	t.release(held, true)
	t.release(held, false)
	next := t.must(t.request()).Token
	t.release(held, false)
	if st := t.status(); !st.Held || st.Number != next.Number {
		t.Fatalf("a late release ended its successor: %+v", st)
	}
	t.release(fencing.Token{Resource: t.Unique(t, "never"), Number: 1, Grant: fencing.NewGrant()}, false)
}

func evictByNumber(t *backendTest) {
	ctx := context.WithoutCancel(t.Context())
	if err := t.b.Evict(ctx, t.resource, 1); err != nil {
		t.Fatalf("Evict of a resource never locked = %v", err)
	}
	h := t.must(t.request())
	for _, number := range []int64{h.Token.Number + 1, 99} {
		if err := t.b.Evict(ctx, t.resource, number); err != nil {
			t.Fatalf("Evict(%d) = %v", number, err)
		}
	}
	if !t.status().Held {
		t.Fatal("an eviction of another number ended the hold")
	}
	for range 2 {
		if err := t.b.Evict(ctx, t.resource, h.Token.Number); err != nil {
			t.Fatalf("Evict = %v", err)
		}
	}
	if t.status().Held {
		t.Fatal("the evicted hold goes on")
	}
	t.wantErr(t.renew(long, h.Token)[0], locking.ErrLost)
	t.release(h.Token, false)
}

func status(t *backendTest) {
	if st := t.status(); st != (locking.Status{Resource: t.resource}) {
		t.Fatalf("got %+v for a resource never locked", st)
	}
	h := t.must(t.request())
	st := t.status()
	if st.Resource != t.resource || st.Number != 1 || !st.Held || st.Label != "tester" || st.Remaining <= 0 || st.Remaining > long {
		t.Fatalf("got %+v, want the hold", st)
	}
	t.release(h.Token, true)
	if st := t.status(); st.Number != 1 || st.Held || st.Label != "" || st.Remaining != 0 {
		t.Fatalf("got %+v after the release, want only the number", st)
	}
}

func list(t *backendTest) {
	prefix := t.Unique(t, "list") + ":"
	var want []string
	for _, suffix := range []string{"b", "a", "A", "a_c", "aXc", "a.c", "0"} {
		t.resource = prefix + suffix
		t.must(t.request())
		want = append(want, t.resource)
	}
	slices.Sort(want)
	t.resource = prefix + "free"
	t.release(t.must(t.request()).Token, true)

	for _, c := range []struct {
		prefix, after string
		limit         int
		want          []string
	}{
		{prefix, "", 100, want},
		{prefix, "", 3, want[:3]},
		{prefix, want[2], 2, want[3:5]},
		{prefix, want[len(want)-1], 10, nil},
		{prefix + "a_", "", 10, []string{prefix + "a_c"}},
		{prefix + "a.", "", 10, []string{prefix + "a.c"}},
		{prefix + "none", "", 10, nil},
	} {
		got, err := t.b.List(t.Context(), c.prefix, c.after, c.limit)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, st := range got {
			names = append(names, st.Resource)
			if !st.Held || st.Number != 1 || st.Label != "tester" || st.Remaining <= 0 {
				t.Errorf("got %+v in the list, want a hold", st)
			}
		}
		if !slices.Equal(names, c.want) {
			t.Errorf("List(%q, %q, %d) = %q, want %q", c.prefix, c.after, c.limit, names, c.want)
		}
	}
}

func numbersRunOut(t *backendTest) {
	r := t.request()
	r.Floor = fencing.MaxNumber
	_, err := t.try(r)
	t.wantErr(err, locking.ErrExhausted)
	if t.status().Held {
		t.Fatal("an exhausted resource is held")
	}
	r = t.request()
	r.Floor = fencing.MaxNumber - 1
	h := t.must(r)
	t.wantNumber(h, fencing.MaxNumber)
	r.Floor = fencing.MaxNumber
	_, err = t.try(r)
	t.wantErr(err, locking.ErrExhausted)
	t.release(h.Token, true)
	_, err = t.try(t.request())
	t.wantErr(err, locking.ErrExhausted)
}

func bigNumbers(t *backendTest) {
	for _, floor := range []int64{99999999999998, 100000000000001, 999999999999999, 1 << 52, fencing.MaxNumber - 10} {
		r := t.request()
		r.Floor = floor
		h := t.must(r)
		t.wantNumber(h, floor+1)
		t.release(h.Token, true)
		h = t.must(t.request())
		t.wantNumber(h, floor+2)
		if st := t.status(); st.Number != floor+2 {
			t.Fatalf("status shows %d, want %d", st.Number, floor+2)
		}
		if err := t.renew(long, h.Token)[0]; err != nil {
			t.Fatalf("Renew = %v", err)
		}
		t.release(h.Token, true)
	}
}

func oneWinner(t *backendTest) {
	const tries, rounds = 16, 5
	last := int64(0)
	for range rounds {
		won := make(chan fencing.Token, tries)
		failed := make(chan error, tries)
		for range tries {
			go func() {
				h, err := t.b.TryAcquire(t.Context(), t.request())
				if err == nil {
					won <- h.Token
				}
				failed <- err
			}()
		}
		for range tries {
			if err := <-failed; err != nil && !errors.Is(err, locking.ErrHeld) {
				t.Fatalf("got %v, want a grant or a *HeldError", err)
			}
		}
		if len(won) != 1 {
			t.Fatalf("%d of %d concurrent attempts were granted", len(won), tries)
		}
		tok := <-won
		if tok.Number <= last {
			t.Fatalf("number %d came after %d", tok.Number, last)
		}
		last = tok.Number
		t.release(tok, true)
	}
}

func endedContext(t *backendTest) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := t.b.TryAcquire(ctx, t.request())
	if o := fencing.OutcomeOf(err); o != fencing.Failed && o != fencing.Unknown {
		t.Fatalf("got %v (%v), want failed or unknown", err, o)
	}
	if st := t.status(); st.Held {
		t.Fatal("an attempt whose context had ended holds the lock")
	}
}
