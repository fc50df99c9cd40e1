package pglock_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/locking/pglock"
)

// TestMaxStall: ten processes died in line, a moment after they were alive.
func TestMaxStall(t *testing.T) {
	t.Parallel()
	b, _ := fresh(t)
	r := request(t)
	tok := acquire(t, b, r).Token
	for range 10 {
		newWaiter(b, r).takesPlace(t)
	}
	alive := newWaiter(b, r).takesPlace(t)
	start := time.Now()
	release(t, b, tok)
	h, calls, err := alive.wait(t.Context())
	took := time.Since(start)
	if err != nil || took > b.MaxStall()+5*time.Second { // of the machine
		t.Errorf("the lock came after %v, %v, want at most %v", took, err, b.MaxStall())
	}
	if b.MaxStall() != pglock.MaxStall || pglock.MaxStall != 8*time.Second {
		t.Errorf("MaxStall is %v and %v, want 8s", b.MaxStall(), pglock.MaxStall)
	}
	t.Logf("after %v and %d calls, with number %d", took, calls, h.Token.Number)
}

// TestWaitersTakeTurns: many processes, many waiters, some of whom leave, die or never ask for
// what they were given. No two hold the lock, numbers grow, nobody waits for ever, and
// nothing ends in a deadlock.
func TestWaitersTakeTurns(t *testing.T) {
	t.Parallel()
	list, owner := processes(t, 4, nil)
	r := request(t)
	ctx, cancel := context.WithTimeout(t.Context(), 6*testPatience)
	defer cancel()
	var mu sync.Mutex
	var numbers []int64
	holding := 0
	var wg sync.WaitGroup
	for i := range 16 {
		b := list[i%len(list)]
		wg.Go(func() {
			for n := range 6 {
				w := newWaiter(b, r)
				switch (i + n) % 6 {
				case 0: // leaves, with what it may have been given
					_, err := w.join(ctx)
					if err == nil {
						break // of the switch: it has the lock
					}
					if err := b.Leave(ctx, w.Request); err != nil {
						t.Errorf("leave: %v", err)
					}
					continue
				case 1: // does not wait
					h, err := b.TryAcquire(ctx, w.Request)
					if err != nil && !errors.Is(err, locking.ErrHeld) {
						t.Errorf("a single attempt: %v", err)
					}
					if err == nil {
						_, _ = b.Release(ctx, h.Token)
					}
					continue
				}
				h, _, err := w.wait(ctx)
				if err != nil {
					t.Errorf("wait: %v", err)
					return
				}
				mu.Lock()
				numbers = append(numbers, h.Token.Number)
				if holding++; holding != 1 {
					t.Errorf("%d hold the lock", holding)
				}
				mu.Unlock()
				if err := b.Renew(ctx, time.Minute, []fencing.Token{h.Token})[0]; err != nil && fencing.OutcomeOf(err) != fencing.Failed {
					t.Errorf("renew: %v", err)
				}
				mu.Lock()
				holding--
				mu.Unlock()
				switch (i + n) % 3 {
				case 0:
					err = b.Evict(ctx, r.Resource, h.Token.Number)
				case 1:
					h, err = b.Transfer(ctx, h.Token, next(r))
					if err == nil {
						_, err = b.Release(ctx, h.Token)
					}
				default:
					_, err = b.Release(ctx, h.Token)
				}
				if err != nil {
					t.Errorf("end: %v", err)
				}
			}
		})
	}
	wg.Wait()
	if !slices.IsSorted(numbers) || len(slices.Compact(slices.Clone(numbers))) != len(numbers) {
		t.Errorf("got the numbers %v, want each above the one before", numbers)
	}
	var deadlocks int
	if err := owner.QueryRow(t.Context(), "select deadlocks from pg_stat_database where datname = current_database()").Scan(&deadlocks); err != nil || deadlocks != 0 {
		t.Errorf("%d deadlocks, %v", deadlocks, err)
	}
	if st := status(t, list[0], r.Resource); st.Waiters != 0 {
		t.Errorf("%d still wait", st.Waiters)
	}
}

// TestTransfer: past everybody in line, and all or nothing.
func TestTransfer(t *testing.T) {
	t.Parallel()
	b, owner := fresh(t)
	r := request(t)
	first := acquire(t, b, r)
	inLine, mine := newWaiter(b, r).takesPlace(t), newWaiter(b, r).takesPlace(t)
	mine.TTL, mine.Label = 30*time.Second, "mine"

	for name, from := range map[string]fencing.Token{
		"number": {Resource: r.Resource, Number: 2, Grant: r.Grant},
		"grant":  {Resource: r.Resource, Number: 1, Grant: fencing.NewGrant()},
	} {
		if h, err := b.Transfer(t.Context(), from, mine.Request); !errors.Is(err, locking.ErrLost) {
			t.Errorf("another %s: got %v, %v, want ErrLost", name, h.Token, err)
		}
	}
	beyond := mine.Request
	beyond.Floor = fencing.MaxNumber
	if h, err := b.Transfer(t.Context(), first.Token, beyond); !errors.Is(err, locking.ErrExhausted) {
		t.Errorf("no number left: got %v, %v, want ErrExhausted", h.Token, err)
	}
	other := mine.Request
	other.Resource += "x"
	for name, to := range map[string]locking.Request{"another resource": other, "the same grant": r, "no grant": {Resource: r.Resource}} {
		if h, err := b.Transfer(t.Context(), first.Token, to); !errors.Is(err, fencing.ErrInvalid) {
			t.Errorf("%s: got %v, %v, want ErrInvalid", name, h.Token, err)
		}
	}
	if st := status(t, b, r.Resource); st.Number != 1 || !st.Held || st.Waiters != 2 || st.Label != "test" {
		t.Errorf("after refusals: %+v, want everything as it was", st)
	}

	h, err := b.Transfer(t.Context(), first.Token, mine.Request)
	if err != nil || h.Token.Number != 2 || h.Token.Grant != mine.Grant || !h.Drawn || h.Remaining != mine.TTL {
		t.Fatalf("got %v, drawn %t, for %v, %v, want number 2, drawn, for the TTL", h.Token, h.Drawn, h.Remaining, err)
	}
	if st := status(t, b, r.Resource); st.Number != 2 || st.Waiters != 1 || st.Label != "mine" || st.Remaining > mine.TTL {
		t.Errorf("after it: %+v, want mine, one in line", st)
	}
	mine.granted(t, 2, false)
	if _, err := b.Transfer(t.Context(), first.Token, next(r)); !errors.Is(err, locking.ErrLost) {
		t.Errorf("from a hold that has ended: got %v, want ErrLost", err)
	}
	if _, err := b.TryAcquire(t.Context(), r); !errors.Is(err, locking.ErrHeld) {
		t.Errorf("the one that gave it away: got %v, want held", err)
	}
	exec(t, owner, "insert into fencegate.marks (resource, number, grant_id, retired, incarnation) values ($1, 33, '', true, 'earlier')", r.Resource)
	to := next(r)
	to.Floor = 20
	h, err = b.Transfer(t.Context(), h.Token, to)
	if err != nil || h.Token.Number != 34 {
		t.Fatalf("a mark above the counter: got %v, %v, want number 34", h.Token, err)
	}
	release(t, b, h.Token)
	inLine.granted(t, 35, true)
	inLine.TTL = time.Hour
	expires(t, owner, r.Resource, 0)
	if _, err := b.Transfer(t.Context(), fencing.Token{Resource: r.Resource, Number: 35, Grant: inLine.Grant}, next(r)); !errors.Is(err, locking.ErrLost) {
		t.Errorf("from a hold that has expired: got %v, want ErrLost", err)
	}
}
