package gateway_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/gateway/wire"
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
