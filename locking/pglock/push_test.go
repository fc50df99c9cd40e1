package pglock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/locking/pglock"
)

// TestPushedAndNotAskedFor: the lock passes on by itself, and its hold was no grant that ended.
func TestPushedAndNotAskedFor(t *testing.T) {
	t.Parallel()
	b, _ := fresh(t)
	r := request(t)
	tok := acquire(t, b, r).Token
	gone, after := newWaiter(b, r).takesPlace(t), newWaiter(b, r).takesPlace(t)
	release(t, b, tok)
	held := after.held(t)
	if held.Number != 2 || held.Remaining > locking.PushTTL {
		t.Errorf("held: %+v, want number 2 for at most %v", held, locking.PushTTL)
	}
	ctx, cancel := context.WithTimeout(t.Context(), testPatience)
	defer cancel()
	h, _, err := after.wait(ctx)
	if err != nil || h.Token.Number != 3 || !h.Drawn {
		t.Fatalf("the next one got %v, drawn %t, %v, want number 3, drawn", h.Token, h.Drawn, err)
	}
	gone.held(t)
	release(t, b, h.Token)
	gone.granted(t, 4, true)
}

// TestPushedAndEnded, where nobody else came meanwhile: a hold that expired before it was asked
// for was no grant that ended; one that was evicted or given up was.
func TestPushedAndEnded(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*testing.T, *pglock.Backend, locking.Request){
		"expired": func(t *testing.T, b *pglock.Backend, r locking.Request) {
			testenv.Eventually(t, testPatience, "the hold expires", func() bool { return !status(t, b, r.Resource).Held })
		},
		"evicted": func(t *testing.T, b *pglock.Backend, r locking.Request) {
			if err := b.Evict(t.Context(), r.Resource, 2); err != nil {
				t.Fatal(err)
			}
		},
		"left": func(t *testing.T, b *pglock.Backend, r locking.Request) {
			if err := b.Leave(t.Context(), r); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, _ := fresh(t)
			r := request(t)
			tok := acquire(t, b, r).Token
			most := locking.PushTTL
			if name == "expired" { // the others are ended before it expires
				most = 3 * locking.PushTTL / 4
				r.TTL = most
			}
			w := newWaiter(b, r).takesPlace(t)
			release(t, b, tok)
			if st := status(t, b, r.Resource); st.Number != 2 || st.Remaining > most {
				t.Errorf("got %+v, want number 2 for no longer than %v", st, most)
			}
			end(t, b, w.Request)
			if st := status(t, b, r.Resource); st.Held {
				t.Fatalf("got %+v, want a free lock", st)
			}
			if name == "expired" {
				release(t, b, w.granted(t, 3, true).Token)
			}
			if _, err := w.join(t.Context()); !errors.Is(err, locking.ErrLost) {
				t.Errorf("got %v, want ErrLost", err)
			}
		})
	}
}

// TestClaimReplyLost: asked again, the hold is there, and another call drew its number.
func TestClaimReplyLost(t *testing.T) {
	t.Parallel()
	b, _ := fresh(t)
	r := request(t)
	tok := acquire(t, b, r).Token
	w := newWaiter(b, r).takesPlace(t)
	release(t, b, tok)
	first := w.granted(t, 2, true) // nobody reads this
	again := w.granted(t, 2, false)
	if again.Token != first.Token {
		t.Errorf("got %v, want %v", again.Token, first.Token)
	}
	if h := acquire(t, b, w.Request); h.Token != first.Token || h.Drawn {
		t.Errorf("a single attempt: got %v, drawn %t, want %v, not drawn", h.Token, h.Drawn, first.Token)
	}
}

// TestSingleAttemptClaims what was given to its grant.
func TestSingleAttemptClaims(t *testing.T) {
	t.Parallel()
	b, _ := fresh(t)
	r := request(t)
	tok := acquire(t, b, r).Token
	w := newWaiter(b, r).takesPlace(t)
	release(t, b, tok)
	if h := acquire(t, b, w.Request); h.Token.Number != 2 || !h.Drawn || h.Remaining != r.TTL {
		t.Errorf("got %v, drawn %t, for %v, want number 2, drawn, for the whole TTL", h.Token, h.Drawn, h.Remaining)
	}
	w.granted(t, 2, false)
}

// TestClaimAboveFloor: while it waited, the request learned of a higher number.
func TestClaimAboveFloor(t *testing.T) {
	t.Parallel()
	b, _ := fresh(t)
	r := request(t)
	tok := acquire(t, b, r).Token
	w := newWaiter(b, r).takesPlace(t)
	release(t, b, tok)
	w.Floor = 41
	w.granted(t, 42, true)
	w.granted(t, 42, false)
}

// TestPushedNumbers are above the counter, the request's floor and the mark.
func TestPushedNumbers(t *testing.T) {
	t.Parallel()
	b, owner := fresh(t)
	r := request(t)
	tok := acquire(t, b, r).Token
	r.Floor = 9
	first := newWaiter(b, r).takesPlace(t)
	second := newWaiter(b, r).takesPlace(t)
	release(t, b, tok)
	tok = first.granted(t, 10, true).Token
	exec(t, owner, "insert into fencegate.marks (resource, number, grant_id, retired, incarnation) values ($1, 33, '', true, 'earlier')", r.Resource)
	release(t, b, tok)
	second.granted(t, 34, true)
}

// TestNumbersRunOut for the first in line: it is told, and those behind it do not wait for it.
func TestNumbersRunOut(t *testing.T) {
	t.Parallel()
	b, _ := fresh(t)
	r := request(t)
	tok := acquire(t, b, r).Token
	r.Floor = fencing.MaxNumber
	first := newWaiter(b, r).takesPlace(t)
	first.woken(t) // listening has begun
	r.Floor = 0
	second := newWaiter(b, r).takesPlace(t)
	release(t, b, tok)
	first.woken(t)
	second.granted(t, 2, true)
	first.held(t)
	release(t, b, fencing.Token{Resource: r.Resource, Number: 2, Grant: second.Grant})
	if _, err := first.join(t.Context()); !errors.Is(err, locking.ErrExhausted) {
		t.Errorf("got %v, want ErrExhausted", err)
	}
}

// TestEvictServes the line, as a release does.
func TestEvictServes(t *testing.T) {
	t.Parallel()
	b, _ := fresh(t)
	r := request(t)
	acquire(t, b, r)
	first, second := newWaiter(b, r).takesPlace(t), newWaiter(b, r).takesPlace(t)
	for range 2 { // the holder; the first, which has not asked yet
		if err := b.Evict(t.Context(), r.Resource, status(t, b, r.Resource).Number); err != nil {
			t.Fatal(err)
		}
	}
	second.woken(t)
	first.held(t)
	second.granted(t, 3, true)
}

// TestExpiryServes: who finds that the holder's time is up gives the lock to the first in line,
// and does not take it himself, waiting or not.
func TestExpiryServes(t *testing.T) {
	t.Parallel()
	for name, ask := range map[string]func(*testing.T, *pglock.Backend, locking.Request) error{
		"single": func(t *testing.T, b *pglock.Backend, r locking.Request) error {
			return second(b.TryAcquire(t.Context(), r))
		},
		"waiting": func(t *testing.T, b *pglock.Backend, r locking.Request) error {
			return second(newWaiter(b, r).join(t.Context()))
		},
		"an earlier program": func(t *testing.T, b *pglock.Backend, r locking.Request) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, owner := fresh(t)
			r := request(t)
			acquire(t, b, r)
			first := newWaiter(b, r).takesPlace(t)
			behind := newWaiter(b, r).takesPlace(t)
			first.woken(t) // listening has begun
			expires(t, owner, r.Resource, 0)
			if name == "an earlier program" {
				var verdict string
				if err := owner.QueryRow(t.Context(), "select verdict from fencegate.lock_acquire($1, $2, '', 60000, 0)", r.Resource, fencing.NewGrant()).Scan(&verdict); err != nil || verdict != "held" {
					t.Errorf("got %s, %v, want held", verdict, err)
				}
				if st := status(t, b, r.Resource); st.Waiters != 1 {
					t.Errorf("%d wait, want 1: an attempt does not", st.Waiters)
				}
			} else if held, ok := errors.AsType[*locking.HeldError](ask(t, b, next(r))); !ok || held.Number != 2 {
				t.Errorf("got %+v, want that the next number is held", held)
			}
			first.woken(t)
			behind.held(t)
			first.granted(t, 2, true)
		})
	}
}

// TestFirstInLineLooks: it takes the lock itself when the holder's time is up.
func TestFirstInLineLooks(t *testing.T) {
	t.Parallel()
	b, owner := fresh(t)
	r := request(t)
	acquire(t, b, r)
	first, behind := newWaiter(b, r).takesPlace(t), newWaiter(b, r).takesPlace(t)
	expires(t, owner, r.Resource, locking.MinTTL)
	h, _, err := first.wait(t.Context())
	if err != nil || h.Token.Number != 2 || !h.Drawn || h.Remaining != time.Minute {
		t.Errorf("got %v, drawn %t, for %v, %v, want number 2, drawn, for a minute", h.Token, h.Drawn, h.Remaining, err)
	}
	release(t, b, h.Token)
	behind.granted(t, 3, true)
}

// TestClaimWhileKeeping: the place is being given up for the lock while its owner keeps it.
func TestClaimWhileKeeping(t *testing.T) {
	t.Parallel()
	b, owner := fresh(t)
	r := request(t)
	tok := acquire(t, b, r).Token
	w := newWaiter(b, r).takesPlace(t)
	tx, err := owner.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := tx.Exec(t.Context(), "select fencegate.lock_release($1, $2, $3)", tok.Resource, tok.Number, tok.Grant); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if h, err := w.join(t.Context()); err != nil || h.Token.Number != 2 || !h.Drawn {
			t.Errorf("got %v, %v, want number 2, drawn", h.Token, err)
		}
	}()
	testenv.Eventually(t, testPatience, "the Join waits", func() bool {
		var n int
		_ = owner.QueryRow(t.Context(), "select count(*) from pg_locks where not granted and pid in (select pid from pg_stat_activity where datname = current_database())").Scan(&n)
		return n > 0
	})
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-done
}
