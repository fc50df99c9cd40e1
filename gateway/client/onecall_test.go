package client_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/gateway"
	"github.com/fencegate/fencegate/gateway/client"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/storage"
)

// plus is a commit that adds 1 to counters named n.
func plus(key string, resources ...string) storage.Commit {
	c := storage.Commit{Key: key}
	for _, name := range resources {
		c.Ops = append(c.Ops, storage.Add(name, "n", 1, 0))
	}
	return c
}

func (l *line) spoil(faults ...fault) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.faults, l.waits, l.sent = faults, nil, 0
}

func (r *rig) wantCounter(t *testing.T, resource, want string) {
	t.Helper()
	if rec, err := r.store.Get(t.Context(), resource, "n"); err != nil || string(rec.Value) != want {
		t.Errorf("got %q, %v, want %s", rec.Value, err, want)
	}
}

func TestCommitLocked(t *testing.T) {
	t.Parallel()
	l := &line{}
	r := newRig(t, over(t, l))
	res, err := r.Store().CommitLocked(t.Context(), plus("", "a", "b"), nil)
	if err != nil || len(res.Ops) != 2 || res.Ops[1] != (storage.OpResult{Version: 1, Counter: 1}) || res.Replayed {
		t.Errorf("got %+v, %v", res, err)
	}
	_, err = r.Store().CommitLocked(t.Context(), storage.Commit{Ops: []storage.Op{storage.Add("a", "n", -2, 0)}}, nil)
	if refused, ok := errors.AsType[*storage.RefusedError](err); !ok || refused.Have != 1 || refused.Want != 0 || !errors.Is(err, storage.ErrBelowMinimum) {
		t.Errorf("got %v, want below minimum", err)
	}
	l.spoil()
	tok := fencing.Token{Resource: "a", Number: 1, Grant: fencing.NewGrant()}
	for name, try := range map[string]func() error{
		"tokens": func() error {
			c := plus("", "a")
			c.Tokens = []fencing.Token{tok}
			_, err := r.Store().CommitLocked(t.Context(), c, nil)
			return err
		},
		"wait": func() error {
			_, err := r.Store().CommitLocked(t.Context(), plus("", "a"), &client.LockOptions{Wait: -1})
			return err
		},
		"key":      func() error { _, err := r.Store().CommitLocked(t.Context(), plus("a b", "a"), nil); return err },
		"resource": func() error { _, err := r.Store().CommitLocked(t.Context(), plus("", "a/b"), nil); return err },
	} {
		if err := try(); !errors.Is(err, fencing.ErrInvalid) || fencing.OutcomeOf(err) != fencing.Refused {
			t.Errorf("%s: got %v, want invalid", name, err)
		}
	}
	if n, _ := l.counts(); n != 0 {
		t.Errorf("%d requests were sent that can only be refused", n)
	}
	r.wantFree(t, "a")
	r.wantFree(t, "b")
}

// TestCommitLockedLabel: others see it while the locks are held.
func TestCommitLockedLabel(t *testing.T) {
	t.Parallel()
	var r *rig
	seen := ""
	r = newRig(t, setup{store: func(s gateway.Store) gateway.Store {
		return lookingStore{s, func(ctx context.Context) {
			if st, err := r.issuer.Status(ctx, "a"); err == nil && st.Held {
				seen = st.Label
			}
		}}
	}})
	if _, err := r.Store().CommitLocked(t.Context(), plus("", "a"), &client.LockOptions{Label: "shop 7"}); err != nil || seen != "shop 7" {
		t.Errorf("got the label %q, %v", seen, err)
	}
	_, err := r.Store().CommitLocked(t.Context(), plus("", "a"), &client.LockOptions{Label: "a\a"})
	if !errors.Is(err, fencing.ErrInvalid) {
		t.Errorf("got %v, want invalid", err)
	}
}

// lookingStore calls look before every commit.
type lookingStore struct {
	gateway.Store
	look func(context.Context)
}

func (s lookingStore) Commit(ctx context.Context, c storage.Commit) (storage.Result, error) {
	s.look(ctx)
	return s.Store.Commit(ctx, c)
}

// TestCommitLockedWaits: a wait that is longer than one request's is made of several, and ends
// when it should.
func TestCommitLockedWaits(t *testing.T) {
	t.Parallel()
	l := &line{}
	s := over(t, l)
	s.client.MaxWait = 50 * time.Millisecond
	r := newRig(t, s)
	g := grant(t, r.issuer, request("a"))
	sent := time.Now()
	_, err := r.Store().CommitLocked(t.Context(), plus("", "a"), &client.LockOptions{Wait: time.Second})
	held, ok := errors.AsType[*locking.HeldError](err)
	if !ok || held.Number != 1 || held.Label != "tester" || held.Remaining <= 0 || fencing.OutcomeOf(err) != fencing.Refused {
		t.Errorf("got %v, want held, and by whom", err)
	}
	if took := time.Since(sent); took < time.Second {
		t.Errorf("it waited %v only", took)
	}
	l.wantWaits(t, s.client.MaxWait)
	time.AfterFunc(300*time.Millisecond, func() { _, _ = r.issuer.Release(context.Background(), g.Token) })
	if _, err := r.Store().CommitLocked(t.Context(), plus("", "a"), &client.LockOptions{Wait: time.Minute}); err != nil {
		t.Error(err)
	}
	r.wantCounter(t, "a", "1")

	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	g = grant(t, r.issuer, request("a"))
	if _, err := r.Store().CommitLocked(ctx, plus("", "a"), &client.LockOptions{Wait: time.Minute}); err == nil || errors.Is(err, locking.ErrLost) {
		t.Errorf("got %v after the context ended", err)
	}
	_, _ = r.issuer.Release(t.Context(), g.Token)
	r.wantCounter(t, "a", "1")
}

// TestCommitLockedLostReplies: with a key it is sent until it is answered, and applied once; without
// one its outcome stays unknown.
func TestCommitLockedLostReplies(t *testing.T) {
	t.Parallel()
	l := &line{}
	r := newRig(t, over(t, l))
	for _, resources := range [][]string{{"a"}, {"b", "c"}} {
		for i, faults := range [][]fault{{}, {loseReply}, {loseCall}, {loseReply, loseCall, loseReply}} {
			l.spoil(faults...)
			key := fmt.Sprint("order-", i)
			res, err := r.Store().CommitLocked(t.Context(), plus(key, resources...), &client.LockOptions{Wait: time.Second})
			if err != nil || res.Ops[0].Counter != int64(i+1) {
				t.Errorf("%v: got %+v, %v, want %d counted", faults, res, err, i+1)
			}
			if want := len(faults) > 0 && faults[0] == loseReply; res.Replayed != want {
				t.Errorf("%v: got replayed = %t, want %t", faults, res.Replayed, want)
			}
			// While somebody has the lock, the answer is to be had all the same.
			g := grant(t, r.issuer, request(resources[0]))
			if res, err := r.Store().CommitLocked(t.Context(), plus(key, resources...), nil); err != nil || !res.Replayed {
				t.Errorf("%v: got %+v, %v, want the answer on record", faults, res, err)
			}
			if _, err := r.issuer.Release(t.Context(), g.Token); err != nil {
				t.Fatal(err)
			}
		}
	}
	l.spoil(loseReply, loseReply, loseReply, loseReply, loseReply)
	if _, err := r.Store().CommitLocked(t.Context(), plus("order-9", "a"), nil); fencing.OutcomeOf(err) != fencing.Unknown {
		t.Errorf("got %v, want unknown", err)
	}
	r.wantCounter(t, "a", "5")

	// The call was lost, so nothing is on record, and then the lock is another's: that says
	// nothing of the first attempt, which may yet arrive.
	g := grant(t, r.issuer, request("a"))
	l.spoil(loseCall)
	if _, err := r.Store().CommitLocked(t.Context(), plus("order-10", "a"), nil); fencing.OutcomeOf(err) != fencing.Unknown {
		t.Errorf("got %v, want unknown", err)
	}
	_, _ = r.issuer.Release(t.Context(), g.Token)

	for _, f := range []fault{loseReply, loseCall} {
		l.spoil(f)
		if _, err := r.Store().CommitLocked(t.Context(), plus("", "d"), &client.LockOptions{Wait: time.Second}); fencing.OutcomeOf(err) != fencing.Unknown || !errors.Is(err, errLine) {
			t.Errorf("without a key: got %v, want unknown", err)
		}
		if n, _ := l.counts(); n != 1 {
			t.Errorf("without a key it was sent %d times", n)
		}
	}
	r.wantCounter(t, "d", "1")
}

// TestCommitLockedImpatient: clients that lose their patience at any moment, and ask again under
// their keys: each key counts once.
func TestCommitLockedImpatient(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{client: client.Options{Retries: -1}})
	const clients, each = 8, 5
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			for k := range each {
				resources := [][]string{{"a"}, {"a", "b"}}[k%2]
				for n := 1; ; n++ {
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(n*n)*100*time.Microsecond)
					_, err := r.Store().CommitLocked(ctx, plus(fmt.Sprintf("order-%d.%d", i, k), resources...), &client.LockOptions{Wait: time.Minute})
					cancel()
					if err == nil {
						break
					}
					if o := fencing.OutcomeOf(err); o == fencing.Refused || n > 2000 {
						t.Errorf("got %v", err)
						break
					}
				}
			}
		})
	}
	wg.Wait()
	r.wantCounter(t, "a", fmt.Sprint(clients*each))
	r.wantCounter(t, "b", fmt.Sprint(clients*(each/2)))
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		a, _ := r.issuer.Status(t.Context(), "a")
		b, _ := r.issuer.Status(t.Context(), "b")
		if !a.Held && !b.Held && a.Waiters+b.Waiters == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("something is left behind: %+v, %+v", a, b)
		}
	}
}
