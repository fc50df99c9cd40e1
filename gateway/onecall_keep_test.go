package gateway_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/gateway/wire"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/locking/lockingtest"
	"github.com/fencegate/fencegate/storage"
)

// slow makes the first commit take its time.
func (b *bubble) slow(takes time.Duration) {
	var first once
	b.commit = func(ctx context.Context, _ storage.Commit, rest func() (storage.Result, error)) (storage.Result, error) {
		if first.again() {
			return rest()
		}
		select {
		case <-time.After(takes):
			return rest()
		case <-ctx.Done():
			return storage.Result{}, fencing.AsUnknown(ctx.Err())
		}
	}
}

// TestOneCallSlowStore: a commit that the store takes longer for than a lock lasts keeps its locks, and is applied under
// its first grant; nothing is renewed for one that is quick.
func TestOneCallSlowStore(t *testing.T) {
	t.Parallel()
	for _, resources := range [][]string{{"a"}, {"a", "b"}} {
		t.Run(fmt.Sprintf("%d resources", len(resources)), func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(b *bubble) {
				b.wantStatus(b.send(b.Context(), add(1, "", resources...)), 200, "")
				time.Sleep(time.Minute)
				if n := b.renewed.Load(); n != 0 {
					b.Errorf("got %d renewals for a quick commit, want none", n)
				}
				b.slow(8 * time.Second)
				answer := b.start(b.Context(), add(1, "", resources...))
				time.Sleep(time.Second)
				begun := time.Now()
				tok := b.hold("a", time.Hour, time.Minute)
				if took := time.Since(begun); took < 7*time.Second {
					b.Errorf("another holder had the lock after %v, while the commit was on its way", took)
				}
				if tok.Number != 3 {
					b.Errorf("got the number %d, want 3, the one after those of the commits", tok.Number)
				}
				b.free(tok)
				got := <-answer
				if b.wantStatus(got, 200, ""); len(resources) == 1 && got.header.Get(wire.HeaderMark) != "2" {
					b.Errorf("got the number %s, want that of the first grant", got.header.Get(wire.HeaderMark))
				}
				n := b.renewed.Load()
				time.Sleep(time.Minute)
				if more := b.renewed.Load() - n; n == 0 || more != 0 {
					b.Errorf("got %d renewals, and %d after the commit; want some and none", n, more)
				}
				b.wantFree(resources...)
			})
		})
	}
}

// TestOneCallGatewayDies: where a gateway dies in the middle of a one-call commit, others wait three seconds for its locks.
func TestOneCallGatewayDies(t *testing.T) {
	t.Parallel()
	for _, resources := range [][]string{{"a"}, {"a", "b"}} {
		inBubble(t, func(b *bubble) {
			b.slow(9 * time.Second)
			b.still.Store(true) // what is dead renews nothing
			answer := b.start(b.Context(), add(1, "", resources...))
			time.Sleep(time.Second)
			begun := time.Now()
			tok := b.hold(resources[len(resources)-1], time.Second, time.Minute)
			if took := time.Since(begun); took > 2100*time.Millisecond {
				b.Errorf("another holder waited another %v", took)
			}
			b.free(tok)
			b.wantStatus(<-answer, 200, "")
			b.wantFree(resources...)
		})
	}
}

// slowRaise is a store in which something is in the way of the first raise.
type slowRaise struct {
	fencing.Fence
	first once
	takes time.Duration
}

func (f *slowRaise) Raise(ctx context.Context, t fencing.Token) error {
	if !f.first.again() {
		time.Sleep(f.takes)
	}
	return f.Fence.Raise(ctx, t)
}

// TestOneCallSlowRaise: a store ends what is in the way of a raise after five seconds, if nothing else is said (MaxIdle).
// By then the hold is over, and the lock is taken again: nobody is told that it failed.
func TestOneCallSlowRaise(t *testing.T) {
	t.Parallel()
	for _, resources := range [][]string{{"a"}, {"a", "b"}} {
		for _, wait := range []string{"", "10s"} {
			t.Run(fmt.Sprintf("%d resources, wait %q", len(resources), wait), func(t *testing.T) {
				t.Parallel()
				inBubble(t, func(b *bubble) {
					b.fence.Fence = &slowRaise{Fence: b.store, takes: 5 * time.Second}
					first := b.start(b.Context(), add(1, wait, resources...))
					time.Sleep(time.Second)
					second := b.start(b.Context(), add(1, "20s", resources...))
					b.wantStatus(<-first, 200, "")
					b.wantStatus(<-second, 200, "")
					for _, name := range resources {
						if n := b.counter(name); n != 2 {
							b.Errorf("%s: got the sum %d, want 2", name, n)
						}
					}
					b.wantFree(resources...)
				})
			})
		}
	}
}

// TestOneCallNoRaiseInTime: where every raise takes longer than a hold lasts, the client hears that nothing happened once
// its time is over, and nobody asks on.
func TestOneCallNoRaiseInTime(t *testing.T) {
	t.Parallel()
	for _, resources := range [][]string{{"a"}, {"a", "b"}} {
		inBubble(t, func(b *bubble) {
			b.grant = func(_ context.Context, _ locking.Request, rest func() (locking.Granted, error)) (locking.Granted, error) {
				b.fence.Fence = &slowRaise{Fence: b.store, takes: 5 * time.Second}
				return rest()
			}
			begun := time.Now()
			b.wantStatus(b.send(b.Context(), add(1, "", resources...)), 503, "failed")
			if took := time.Since(begun); took < 30*time.Second || took > 40*time.Second {
				b.Errorf("got the answer after %v, want it after the 30 s of a request", took)
			}
			time.Sleep(time.Minute)
			n := len(b.fence.Raised())
			if time.Sleep(time.Minute); len(b.fence.Raised()) != n || n > 10 {
				b.Errorf("got %d raises, and %d in all a minute later; want a few and no more", n, len(b.fence.Raised()))
			}
			if n := b.counter("a"); n != 0 {
				b.Errorf("got the sum %d, want 0", n)
			}
			b.wantFree(resources...)
		})
	}
}

// TestOneCallRenewalHangs: a renewal that is not answered is followed by another while there is time.
func TestOneCallRenewalHangs(t *testing.T) {
	t.Parallel()
	for _, resources := range [][]string{{"a"}, {"a", "b"}} {
		inBubble(t, func(b *bubble) {
			b.lock.On("Renew", lockingtest.Hang)
			b.slow(8 * time.Second)
			answer := b.start(b.Context(), add(1, "", resources...))
			time.Sleep(time.Second)
			tok := b.hold("a", time.Hour, time.Minute)
			if tok.Number != 2 {
				b.Errorf("got the number %d, want 2", tok.Number)
			}
			b.free(tok)
			got := <-answer
			if b.wantStatus(got, 200, ""); len(resources) == 1 && got.header.Get(wire.HeaderMark) != "1" {
				b.Errorf("got the number %s, want that of the first grant", got.header.Get(wire.HeaderMark))
			}
			b.wantFree(resources...)
		})
	}
}
