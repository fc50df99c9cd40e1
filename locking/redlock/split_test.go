package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/locking/redlock"
)

// acquire waits for the lock like an issuer: it repeats Join when it is woken, and every
// locking.LookEvery.
func acquire(ctx context.Context, b *redlock.Backend, r locking.Request) (locking.Hold, error) {
	woken := make(chan struct{}, 1)
	for {
		h, err := b.Join(ctx, r, func() {
			select {
			case woken <- struct{}{}:
			default:
			}
		})
		if !errors.Is(err, locking.ErrHeld) {
			return h, err
		}
		look := time.NewTimer(locking.LookEvery)
		select {
		case <-woken:
		case <-look.C:
		case <-ctx.Done():
			look.Stop()
			return h, errors.Join(ctx.Err(), b.Leave(context.WithoutCancel(ctx), r))
		}
		look.Stop()
	}
}

// TestRedlockSplitVotesResolve: contenders divide the nodes between them, so that none has a
// majority; then all of them get the lock, one after the other.
func TestRedlockSplitVotesResolve(t *testing.T) {
	t.Parallel()
	for _, votes := range [][]int{{2, 2, 1}, {3, 3}} {
		n := 0
		for _, v := range votes {
			n += v
		}
		t.Run(fmt.Sprintf("%s of %d", strings.Trim(strings.ReplaceAll(fmt.Sprint(votes), " ", "-"), "[]"), n), func(t *testing.T) {
			t.Parallel()
			c := start(t, n, nil)
			known(t, c.ready(t, redlock.Options{NodeTimeout: patient}))
			numbers := make(chan int64, len(votes))
			var contenders [][]*proxy
			for i := range votes {
				b, proxies := c.proxied(t, redlock.Options{NodeTimeout: patient})
				contenders = append(contenders, proxies)
				for _, p := range proxies {
					p.set(holding("grant"))
				}
				go func() {
					h, err := acquire(t.Context(), b, request("r"))
					if err != nil {
						t.Errorf("contender %d: %v", i, err)
					} else if _, err := b.Release(t.Context(), h.Token); err != nil {
						t.Errorf("contender %d: %v", i, err)
					}
					numbers <- h.Token.Number
				}()
			}
			// Who is first at a node: contender 0 at the first votes[0] nodes, and so on.
			owner := make([]int, 0, n)
			for i, v := range votes {
				owner = append(owner, slices.Repeat([]int{i}, v)...)
			}
			grants := make([][]*message, len(votes))
			for i, proxies := range contenders {
				for _, p := range proxies {
					grants[i] = append(grants[i], p.next("grant"))
				}
			}
			for node, i := range owner {
				if said := grants[i][node].send(); !strings.Contains(said, "granted") {
					t.Fatalf("contender %d at node %d: %s", i, node, said)
				}
			}
			for i, proxies := range contenders {
				for node, p := range proxies {
					if owner[node] != i {
						if said := grants[i][node].send(); !strings.Contains(said, "held") {
							t.Fatalf("contender %d at node %d: %s", i, node, said)
						}
					}
					p.set(holding())
				}
			}
			for _, list := range grants {
				for _, m := range list {
					m.answer()
				}
			}
			seen := map[int64]bool{}
			testenv.Eventually(t, 30*time.Second, "every contender to be served", func() bool {
				select {
				case number := <-numbers:
					seen[number] = true
				default:
				}
				return len(seen) == len(votes)
			})
		})
	}
}
