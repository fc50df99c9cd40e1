package lockingtest

import (
	"context"
	"errors"
	"slices"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/locking"
)

func renewExtends(t *backendTest) {
	r := t.request()
	r.TTL = short
	h := t.must(r)
	if err := t.renew(long, h.Token)[0]; err != nil {
		t.Fatalf("Renew = %v", err)
	}
	if st := t.status(); !st.Held || st.Remaining <= short || st.Remaining > long {
		t.Fatalf("after a renewal to %v got %+v", long, st)
	}
}

func renewNeverShortens(t *backendTest) {
	h := t.must(t.request())
	if err := t.renew(short, h.Token)[0]; err != nil {
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
