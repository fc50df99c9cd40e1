package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/storage"
)

// TestOneCallImpatient: on a lock that goes from hand to hand, those that do not wait are told so soon,
// however many they are and whatever goes wrong; the lock store is not asked by each of them.
func TestOneCallImpatient(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(ctx context.Context, n int64) error{
		"":              func(context.Context, int64) error { return nil },
		"status fails":  func(_ context.Context, n int64) error { return errorsOf(n < 4) },
		"status panics": func(_ context.Context, n int64) error { return panicsOf(n < 4) },
		"status hangs": func(ctx context.Context, n int64) error {
			if n == 1 {
				<-ctx.Done()
			}
			return ctx.Err()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(b *bubble) {
				var looks atomic.Int64
				b.status = func(ctx context.Context, _ string, rest func() (locking.Status, error)) (locking.Status, error) {
					n := looks.Add(1)
					if err := spoil(ctx, n); err != nil {
						return locking.Status{}, err
					}
					st, err := rest()
					st.Number += n // another holder at every look
					return st, err
				}
				tok := b.hold("a", time.Hour, 0)
				patient := b.start(b.Context(), add(1, "60s", "a"))
				time.Sleep(time.Second)
				n := 700 // within one caller's share of MaxInFlight
				if name == "status hangs" {
					n = 50
				}
				var all []<-chan reply
				begun := time.Now()
				for range n {
					all = append(all, b.start(b.Context(), add(1, "", "a")))
				}
				for _, got := range all {
					b.wantStatus(<-got, 423, "held")
				}
				most := 100 * time.Millisecond
				if name == "status hangs" {
					most += 5 * time.Second // Options.Cleanup
				}
				if took := time.Since(begun); took > most {
					b.Errorf("they were answered after %v", took)
				}
				if looks.Load() > 10 {
					b.Errorf("the lock store was asked %d times for %d requests", looks.Load(), n)
				}
				if st, err := b.issuer.Status(b.Context(), "a"); err != nil || st.Waiters != 1 {
					b.Errorf("got %+v, %v, want one waiting", st, err)
				}
				b.free(tok)
				b.wantStatus(<-patient, 200, "")
				b.wantFree("a")
			})
		})
	}
}

func errorsOf(bad bool) error {
	if bad {
		return errors.New("on purpose")
	}
	return nil
}

func panicsOf(bad bool) error {
	if bad {
		panic("on purpose")
	}
	return nil
}

// TestOneCallLeavesTheLine before it is answered: held, or while the gateway drains.
func TestOneCallLeavesTheLine(t *testing.T) {
	t.Parallel()
	for _, drain := range []bool{false, true} {
		inBubble(t, func(b *bubble) {
			left := make(chan struct{})
			b.grant = func(_ context.Context, r locking.Request, rest func() (locking.Granted, error)) (locking.Granted, error) {
				g, err := rest()
				if r.Wait > 0 {
					time.Sleep(100 * time.Millisecond) // it takes its time to leave
					close(left)
				}
				return g, err
			}
			tok := b.hold("a", time.Hour, 0)
			if drain {
				time.AfterFunc(time.Second, b.g.Drain)
				b.wantStatus(b.send(b.Context(), add(1, "60s", "a")), 503, "draining")
			} else {
				b.wantStatus(b.send(b.Context(), add(1, "1s", "a")), 423, "held")
			}
			select {
			case <-left:
			default:
				b.Errorf("drain %t: it was answered while it stood in line", drain)
			}
			b.free(tok)
			b.wantFree("a")
		})
	}
}

// TestOneCallDeadTurn: once the store has refused a token, none of those that wait for a turn is sent
// to it with that token.
func TestOneCallDeadTurn(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *bubble) {
		var refused atomic.Int64
		b.commit = func(_ context.Context, c storage.Commit, rest func() (storage.Result, error)) (storage.Result, error) {
			time.Sleep(10 * time.Millisecond)
			if c.Tokens[0].Number == 2 { // the first turn's
				refused.Add(1)
				return storage.Result{}, &fencing.StaleError{Token: c.Tokens[0], Highest: 2, Reason: fencing.Retired}
			}
			return rest()
		}
		tok := b.hold("a", time.Hour, 0)
		const n = 300
		var all []<-chan reply
		for range n {
			all = append(all, b.start(b.Context(), add(1, "60s", "a")))
		}
		synctest.Wait()
		b.free(tok)
		for _, got := range all {
			b.wantStatus(<-got, 200, "")
		}
		if got := refused.Load(); got < 1 || got > 128 {
			b.Errorf("%d commits were sent with the refused token, want the 128 that were sent at once at most", got)
		}
		if got := b.counter("a"); got != n {
			b.Errorf("got the sum %d, want %d", got, n)
		}
		b.wantFree("a")
	})
}

// TestOneCallFreesTogether: many locks that cannot be given back hold the answer up no longer than
// one, and those that can be evicted are.
func TestOneCallFreesTogether(t *testing.T) {
	t.Parallel()
	for _, evictHangs := range []bool{false, true} {
		inBubble(t, func(b *bubble) {
			b.release = func(ctx context.Context, _ fencing.Token, _ func() (bool, error)) (bool, error) {
				<-ctx.Done()
				return false, fencing.AsUnknown(ctx.Err())
			}
			var evictions, most atomic.Int64
			b.evict = func(ctx context.Context, _ string, rest func() error) error {
				if n := evictions.Add(1); n > most.Load() {
					most.Store(n)
				}
				defer evictions.Add(-1)
				if time.Sleep(time.Millisecond); !evictHangs {
					return rest()
				}
				<-ctx.Done()
				return fencing.AsUnknown(ctx.Err())
			}
			var resources []string
			for i := range 100 {
				resources = append(resources, fmt.Sprintf("r%02d", i))
			}
			begun := time.Now()
			b.wantStatus(b.send(b.Context(), add(1, "1s", resources...)), 200, "")
			if took := time.Since(begun); took > 6*time.Second { // Options.Cleanup is 5 s
				b.Errorf("evictions hang: %t: it was answered after %v", evictHangs, took)
			}
			if most.Load() > 8 {
				b.Errorf("%d evictions at once", most.Load())
			}
			if evictHangs {
				time.Sleep(20 * time.Second)
			}
			b.wantFree(resources...)
		})
	}
}
