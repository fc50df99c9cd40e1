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
	"github.com/fencegate/fencegate/gateway/wire"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/locking/lockingtest"
	"github.com/fencegate/fencegate/storage"
)

// TestOneCallHangUp: a client hangs up at every step. What was not handed to the store is not
// applied, others are not disturbed, nothing is left behind.
func TestOneCallHangUp(t *testing.T) {
	t.Parallel()
	// Each step calls hangUp once, with the first request at that point.
	steps := map[string]func(b *bubble, hangUp func()) (applied bool){
		"waiting": func(b *bubble, hangUp func()) bool {
			tok := b.hold("a", time.Hour, 0)
			go func() {
				time.Sleep(time.Second)
				hangUp()
				b.free(tok)
			}()
			return false
		},
		"before the grant": func(b *bubble, hangUp func()) bool {
			b.grant = func(_ context.Context, _ locking.Request, rest func() (locking.Granted, error)) (locking.Granted, error) {
				hangUp()
				return rest()
			}
			return false
		},
		"after the grant": func(b *bubble, hangUp func()) bool {
			b.grant = func(_ context.Context, _ locking.Request, rest func() (locking.Granted, error)) (locking.Granted, error) {
				defer hangUp()
				return rest()
			}
			return false
		},
		"in the commit": func(b *bubble, hangUp func()) bool {
			b.commit = func(_ context.Context, _ storage.Commit, rest func() (storage.Result, error)) (storage.Result, error) {
				hangUp()
				return rest() // the store looks at the context
			}
			return false
		},
		"after the commit": func(b *bubble, hangUp func()) bool {
			b.commit = func(_ context.Context, _ storage.Commit, rest func() (storage.Result, error)) (storage.Result, error) {
				defer hangUp()
				return rest()
			}
			return true
		},
		"before the release": func(b *bubble, hangUp func()) bool {
			b.release = func(_ context.Context, _ fencing.Token, rest func() (bool, error)) (bool, error) {
				hangUp()
				return rest()
			}
			return true
		},
	}
	for name, step := range steps {
		for _, resources := range [][]string{{"a"}, {"a", "b"}} {
			for _, followers := range []int{0, 3} {
				t.Run(fmt.Sprintf("%s/%d resources/%d followers", name, len(resources), followers), func(t *testing.T) {
					t.Parallel()
					inBubble(t, func(b *bubble) {
						ctx, cancel := context.WithCancel(b.Context())
						defer cancel()
						follow := make(chan (<-chan reply), followers)
						var hungUp once
						applied := step(b, func() {
							if hungUp.again() {
								return
							}
							for range followers {
								follow <- b.start(b.Context(), add(1, "20s", resources...))
							}
							time.Sleep(time.Second)
							cancel()
							time.Sleep(time.Second)
						})
						b.send(ctx, add(100, "20s", resources...))
						time.Sleep(5 * time.Second)
						for range followers {
							b.wantStatus(<-<-follow, 200, "")
						}
						b.wantFree(resources...)
						want := int64(followers)
						if applied {
							want += 100
						}
						for _, name := range resources {
							if got := b.counter(name); got != want {
								b.Errorf("%s: got the sum %d, want %d", name, got, want)
							}
						}
					})
				})
			}
		}
	}
}

// TestOneCallFaults: every call to the lock store and to the store's fence goes wrong in every
// way. What is answered is true, and after a TTL nothing is left of it.
func TestOneCallFaults(t *testing.T) {
	t.Parallel()
	faults := map[string]lockingtest.Fault{
		"fails": lockingtest.FailBefore, "call lost": lockingtest.LoseCall, "reply lost": lockingtest.LoseReply, "hangs": lockingtest.Hang,
	}
	for _, method := range []string{"TryAcquire", "Release", "Raise", "Retire"} {
		for name, fault := range faults {
			for nth := range 3 {
				for _, resources := range [][]string{{"a"}, {"a", "b"}} {
					t.Run(fmt.Sprintf("%s %d %s/%d resources", method, nth+1, name, len(resources)), func(t *testing.T) {
						t.Parallel()
						inBubble(t, func(b *bubble) {
							script := &b.lock.Faults
							if method == "Raise" || method == "Retire" {
								script = &b.fence.Faults
							}
							for range nth {
								script.On(method, lockingtest.None)
							}
							script.On(method, fault)
							applied := int64(0)
							for range 3 {
								all := []<-chan reply{b.start(b.Context(), add(1, "5s", resources...)), b.start(b.Context(), add(1, "", resources...))}
								for _, got := range all {
									switch got := <-got; got.status {
									case 200:
										applied++
									case 423, 503: // nothing was written
									default:
										b.Errorf("got %d %s", got.status, got.body)
									}
								}
							}
							if script.Calls(method) <= nth {
								b.Errorf("%s was called %d times: nothing went wrong", method, script.Calls(method))
							}
							for _, name := range resources {
								if got := b.counter(name); got != applied {
									b.Errorf("%s: got the sum %d after %d answers that say applied", name, got, applied)
								}
							}
							time.Sleep(20 * time.Second)
							b.wantFree(resources...)
							b.wantStatus(b.send(b.Context(), add(1, "", resources...)), 200, "")
						})
					})
				}
			}
		}
	}
}

// TestOneCallTakesAgain: the gateway stands still while it holds the lock, somebody else has the
// lock meanwhile; or the store is restarted. The store refuses the commits, and they are applied
// once, under another grant.
func TestOneCallTakesAgain(t *testing.T) {
	t.Parallel()
	for _, resources := range [][]string{{"a"}, {"a", "b"}} {
		for name, fault := range map[string]func(b *bubble){
			"paused": func(b *bubble) {
				b.still.Store(true)
				time.Sleep(11 * time.Second)
				b.still.Store(false)
				tok := b.hold("a", 10*time.Second, 0)
				com := storage.Commit{Tokens: []fencing.Token{tok}, Ops: []storage.Op{storage.Add("a", "n", 1000, 0)}}
				if _, err := b.store.Commit(b.Context(), com); err != nil {
					b.Error(err)
				}
				time.AfterFunc(5*time.Second, func() { b.free(tok) })
			},
			"restarted": func(b *bubble) {
				time.Sleep(time.Second)
				if _, err := b.data.EvictAll(b.Context(), nil); err != nil {
					b.Error(err)
				}
			},
		} {
			t.Run(fmt.Sprintf("%s/%d resources", name, len(resources)), func(t *testing.T) {
				t.Parallel()
				inBubble(t, func(b *bubble) {
					var done once
					b.commit = func(_ context.Context, _ storage.Commit, rest func() (storage.Result, error)) (storage.Result, error) {
						if !done.again() {
							fault(b)
						}
						return rest()
					}
					const n = 5
					var all []<-chan reply
					for range n {
						all = append(all, b.start(b.Context(), add(1, "25s", resources...)))
					}
					for _, got := range all {
						b.wantStatus(<-got, 200, "")
					}
					if got := b.counter("a") % 1000; got != n {
						b.Errorf("got the sum %d, want %d", got, n)
					}
					b.wantFree(resources...)
				})
			})
		}
	}
}

// TestOneCallNeverCurrent: a store that refuses every token ends in 503, not in a loop, and not
// in a stale token, which the client never had.
func TestOneCallNeverCurrent(t *testing.T) {
	t.Parallel()
	for _, resources := range [][]string{{"a"}, {"a", "b"}} {
		inBubble(t, func(b *bubble) {
			var commits atomic.Int64
			b.commit = func(_ context.Context, c storage.Commit, _ func() (storage.Result, error)) (storage.Result, error) {
				commits.Add(1)
				return storage.Result{}, &fencing.StaleError{Token: c.Tokens[0], Highest: c.Tokens[0].Number, Reason: fencing.Retired}
			}
			got := b.send(b.Context(), add(1, "", resources...))
			b.wantStatus(got, 503, "failed")
			if n := commits.Load(); n < 2 || n > 10 {
				b.Errorf("the store was asked %d times", n)
			}
			if got.header.Get(wire.HeaderMark) != "" {
				b.Errorf("the reply names a mark: %v", got.header)
			}
			b.wantFree(resources...)
		})
	}
}

// TestOneCallUnknown: an outcome that is not known stays so, and is not tried again.
func TestOneCallUnknown(t *testing.T) {
	t.Parallel()
	for _, resources := range [][]string{{"a"}, {"a", "b"}} {
		inBubble(t, func(b *bubble) {
			var commits atomic.Int64
			b.commit = func(_ context.Context, _ storage.Commit, rest func() (storage.Result, error)) (storage.Result, error) {
				if commits.Add(1) > 1 {
					return rest()
				}
				_, _ = rest()
				return storage.Result{}, fencing.AsUnknown(errors.New("the reply was lost"))
			}
			b.wantStatus(b.send(b.Context(), add(1, "", resources...), wire.HeaderKey, "k"), 504, "unknown")
			if commits.Load() != 1 {
				b.Errorf("the store was asked %d times", commits.Load())
			}
			b.wantFree(resources...)
			// The key tells what became of it.
			got := b.send(b.Context(), add(1, "", resources...), wire.HeaderKey, "k")
			if b.wantStatus(got, 200, ""); got.header.Get(wire.HeaderReplayed) != "true" || commits.Load() != 1 {
				b.Errorf("got %v after %d commits", got.header, commits.Load())
			}
		})
	}
}

// TestOneCallPanics: a panic anywhere is one request's, or nobody's, and leaves no lock behind.
func TestOneCallPanics(t *testing.T) {
	t.Parallel()
	for _, resources := range [][]string{{"a"}, {"a", "b"}} {
		for name, c := range map[string]struct {
			spoil func(b *bubble, once func())
			want  []int // one of the two answers has one of these
		}{
			"commit": {func(b *bubble, once func()) {
				b.commit = func(_ context.Context, _ storage.Commit, rest func() (storage.Result, error)) (storage.Result, error) {
					once()
					return rest()
				}
			}, []int{500}},
			"grant": {func(b *bubble, once func()) {
				b.grant = func(_ context.Context, _ locking.Request, rest func() (locking.Granted, error)) (locking.Granted, error) {
					once()
					return rest()
				}
			}, []int{500, 503}},
			"release": {func(b *bubble, once func()) {
				b.release = func(_ context.Context, _ fencing.Token, rest func() (bool, error)) (bool, error) {
					once()
					return rest()
				}
			}, []int{200}},
		} {
			t.Run(fmt.Sprintf("%s/%d resources", name, len(resources)), func(t *testing.T) {
				t.Parallel()
				inBubble(t, func(b *bubble) {
					var done once
					c.spoil(b, func() {
						if !done.again() {
							time.Sleep(time.Second)
							panic("on purpose")
						}
					})
					first := b.start(b.Context(), add(1, "20s", resources...))
					time.Sleep(2 * time.Second)
					b.wantStatus(b.send(b.Context(), add(1, "20s", resources...)), 200, "")
					got := <-first
					ok := false
					for _, status := range c.want {
						ok = ok || got.status == status
					}
					if !ok {
						b.Errorf("got %d %s, want one of %v", got.status, got.body, c.want)
					}
					want := int64(1)
					if got.status == 200 {
						want++
					}
					if n := b.counter("a"); n != want {
						b.Errorf("got the sum %d, want %d", n, want)
					}
					b.wantFree(resources...)
				})
			})
		}
	}
}

// TestOneCallReleaseFails: what is applied is answered as applied; the hold is ended in another
// way, or it is said in the log.
func TestOneCallReleaseFails(t *testing.T) {
	t.Parallel()
	for _, resources := range [][]string{{"a"}, {"a", "b"}} {
		inBubble(t, func(b *bubble) {
			b.release = func(context.Context, fencing.Token, func() (bool, error)) (bool, error) {
				return false, fencing.AsUnknown(errors.New("the release was lost"))
			}
			b.wantStatus(b.send(b.Context(), add(1, "", resources...)), 200, "")
			b.wantFree(resources...)
			if s := b.log.String(); s != "" && len(resources) == 1 && !containsOnlyRequests(s) {
				b.Errorf("it was ended, and yet: %s", s)
			}
		})
	}
}

// TestOneCallDrain: those who wait are sent away, those in the store finish.
func TestOneCallDrain(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *bubble) {
		b.commit = func(_ context.Context, _ storage.Commit, rest func() (storage.Result, error)) (storage.Result, error) {
			time.Sleep(5 * time.Second)
			return rest()
		}
		tok := b.hold("held", time.Hour, 0)
		var waiting []<-chan reply
		for _, body := range []string{add(1, "60s", "held"), add(1, "50s", "held"), add(1, "60s", "also", "held")} {
			waiting = append(waiting, b.start(b.Context(), body))
		}
		inStore := []<-chan reply{b.start(b.Context(), add(1, "60s", "a")), b.start(b.Context(), add(1, "60s", "b", "c"))}
		time.Sleep(time.Second)
		b.g.Drain()
		for _, got := range waiting {
			b.wantStatus(<-got, 503, "draining")
		}
		b.wantFree("also")
		if n := b.counter("a"); n != 0 {
			b.Fatal("the commit is over too early for this test")
		}
		for _, got := range inStore {
			b.wantStatus(<-got, 200, "")
		}
		b.wantStatus(b.send(b.Context(), add(1, "1s", "a")), 503, "draining")
		b.wantStatus(b.send(b.Context(), add(1, "", "a")), 200, "") // it does not wait
		b.free(tok)
		b.wantFree("held", "a", "b", "c")
	})
}

// TestOneCallKeepsLocks: what it has it keeps, while it waits for longer than a TTL for the rest.
func TestOneCallKeepsLocks(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *bubble) {
		tok := b.hold("b", time.Hour, 0)
		got := b.start(b.Context(), add(1, "60s", "a", "b"))
		for range 40 {
			time.Sleep(time.Second)
			if st, err := b.issuer.Status(b.Context(), "a"); err != nil || !st.Held || st.Number != 1 {
				b.Fatalf("got %+v, %v, want the first lock kept", st, err)
			}
		}
		b.free(tok)
		b.wantStatus(<-got, 200, "")
		b.wantFree("a", "b")
	})
}

// TestOneCallTurns: a turn has its bounds, so that somebody who has waited gets the lock while
// more and more one-call commits come.
func TestOneCallTurns(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		each time.Duration // how long a commit takes
		most int64         // commits before the other holder
		by   time.Duration
	}{
		{10 * time.Millisecond, 256, time.Second},
		{1100 * time.Millisecond, 128, 1500 * time.Millisecond},
	} {
		t.Run(c.each.String(), func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(b *bubble) {
				var now, most, done atomic.Int64
				b.commit = func(_ context.Context, _ storage.Commit, rest func() (storage.Result, error)) (storage.Result, error) {
					for n := now.Add(1); n > most.Load(); {
						most.Store(n)
					}
					time.Sleep(c.each)
					now.Add(-1)
					done.Add(1)
					return rest()
				}
				tok := b.hold("a", time.Hour, 0)
				const n = 600
				var all []<-chan reply
				for range n {
					all = append(all, b.start(b.Context(), add(1, "60s", "a")))
				}
				synctest.Wait()
				begun := time.Now()
				other := make(chan fencing.Token)
				go func() { other <- b.hold("a", time.Hour, time.Minute) }()
				synctest.Wait()
				b.free(tok)
				tok = <-other
				if got := done.Load(); got > c.most || got == 0 {
					b.Errorf("%d commits came before the one that waited, want 1 to %d", got, c.most)
				}
				if took := time.Since(begun); took > c.by {
					b.Errorf("the other holder waited %v", took)
				}
				time.Sleep(time.Second)
				b.free(tok)
				for _, got := range all {
					b.wantStatus(<-got, 200, "")
				}
				if got := b.counter("a"); got != n || most.Load() > 128 || most.Load() < 2 {
					b.Errorf("got the sum %d of %d, and up to %d commits at once", got, n, most.Load())
				}
				b.wantFree("a")
			})
		})
	}
}

// TestOneCallStoreHangs: a commit that the store does not answer holds its locks for ten seconds and
// what is left of their time.
func TestOneCallStoreHangs(t *testing.T) {
	t.Parallel()
	for _, resources := range [][]string{{"a"}, {"a", "b"}} {
		inBubble(t, func(b *bubble) {
			b.slow(time.Hour)
			answer := b.start(b.Context(), add(100, "", resources...))
			time.Sleep(time.Second)
			n := int64(1)
			if len(resources) == 1 {
				b.wantStatus(b.send(b.Context(), add(1, "", "a")), 200, "") // in the same turn
				n++
			}
			begun := time.Now()
			tok := b.hold("a", time.Hour, time.Minute)
			if took := time.Since(begun); took > 12*time.Second {
				b.Errorf("another holder waited %v", took)
			}
			b.free(tok)
			b.wantStatus(b.send(b.Context(), add(1, "", resources...)), 200, "")
			b.wantStatus(<-answer, 504, "unknown")
			if got := b.counter("a"); got != n {
				b.Errorf("got the sum %d, want %d", got, n)
			}
			b.wantFree(resources...)
		})
	}
}

// TestOneCallLateGrant: under a grant whose time is nearly over no commit is started.
func TestOneCallLateGrant(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *bubble) {
		var late once
		b.grant = func(_ context.Context, _ locking.Request, rest func() (locking.Granted, error)) (locking.Granted, error) {
			g, err := rest()
			if !late.again() {
				time.Sleep(2500 * time.Millisecond)
			}
			return g, err
		}
		got := b.send(b.Context(), add(1, "", "a"))
		if b.wantStatus(got, 200, ""); got.header.Get(wire.HeaderMark) != "2" {
			b.Errorf("got the number %s, want that of a second grant", got.header.Get(wire.HeaderMark))
		}
		b.wantFree("a")
	})
}
