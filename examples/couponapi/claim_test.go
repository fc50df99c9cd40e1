package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/storage"
)

// brief are leases that end soon, however busy their holder is: as if it was paused.
var brief = shopOptions{ttl: 300 * time.Millisecond, maxHold: 300 * time.Millisecond, wait: 20 * time.Second}

// held holds one claim in its payment, until it is told to go on.
type held struct {
	stub    *paymentStub
	waiting chan struct{} // closed when the claim's payment is booked
	resume  chan struct{}
}

func hold(t *testing.T, key string) held {
	t.Helper()
	h := held{waiting: make(chan struct{}), resume: make(chan struct{})}
	h.stub = &paymentStub{booked: func(k string) {
		if strings.HasSuffix(k, ".claim."+key) {
			close(h.waiting)
			standStill(t, h.resume)
		}
	}}
	return h
}

// standStill waits for resume, or for the end of the test: one that failed must not hang its servers.
func standStill(t *testing.T, resume <-chan struct{}) {
	t.Helper()
	select {
	case <-resume:
	case <-t.Context().Done():
	}
}

// await waits until it has come to something; a test that hangs says nothing.
func await(t *testing.T, come <-chan struct{}) {
	t.Helper()
	select {
	case <-come:
	case <-time.After(30 * time.Second):
		t.Fatal("it does not come to that")
	}
}

// start claims in the background.
func (d desk) start(way, key string) <-chan answer {
	done := make(chan answer, 1)
	go func() {
		a, err := request(d.t.Context(), http.MethodPost, d.url+"/coupons/"+d.coupon+way, "", "Idempotency-Key", key)
		if err != nil {
			d.t.Error(err)
		}
		done <- a
	}()
	return done
}

// TestPausedPastItsLease: a claim stands still in its payment until its lease is over and another
// one has sold from the same bucket. Its commit is refused, it starts over under its key, and
// everything is accounted for.
func TestPausedPastItsLease(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, wish wishes) {
		h := hold(t, "slow")
		wish.desks, wish.options, wish.stub = 2, brief, h.stub
		w := newWorld(t, wish)
		desks := w.open(t, 5, 1)
		slow := desks[0].start("/claim", "slow")
		await(t, h.waiting)
		into[receipt](t, desks[1].claim("quick"), http.StatusCreated) // waits until the lease of the slow one is over
		before := w.shops[0].stale.Load()
		close(h.resume)
		into[receipt](t, <-slow, http.StatusCreated)
		if got := w.shops[0].stale.Load() - before; got == 0 {
			t.Error("no stale commit was refused")
		}
		desks[0].audit(3, 2, 2)
	})
}

// TestTheLastOne: the same with the last coupon. The payment has been made, nothing is left to
// sell: it is decided that it is void, for good, and the money goes back.
func TestTheLastOne(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, wish wishes) {
		h := hold(t, "slow")
		wish.desks, wish.options, wish.stub = 2, brief, h.stub
		desks := newWorld(t, wish).open(t, 1, 1)
		slow := desks[0].start("/claim", "slow")
		await(t, h.waiting)
		quick := into[receipt](t, desks[1].claim("quick"), http.StatusCreated)
		close(h.resume)
		(<-slow).is(t, soldOut)
		desks[0].audit(0, 1, 1)

		into[receipt](t, desks[0].giveReturn(quick.ID), http.StatusOK)
		desks[1].claim("slow").is(t, soldOut) // its money has gone back: it must not get the coupon for nothing
		desks[0].audit(1, 0, 0)
		into[receipt](t, desks[1].claim("new"), http.StatusCreated)
		desks[0].audit(0, 1, 1)
	})
}

// TestSentAgainMeanwhile: the client of a paused claim gives up waiting and sends it again, to
// another desk. Whoever of the two is late finds the other's sale.
func TestSentAgainMeanwhile(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, wish wishes) {
		h := hold(t, "k")
		wish.desks, wish.options, wish.stub = 2, brief, h.stub
		desks := newWorld(t, wish).open(t, 5, 3)
		first := desks[0].start("/claim", "k")
		await(t, h.waiting)
		second := into[receipt](t, desks[1].claim("k"), http.StatusCreated)
		close(h.resume)
		if got := into[receipt](t, <-first, http.StatusOK); got != second {
			t.Errorf("one key, two receipts: %+v and %+v", got, second)
		}
		desks[0].audit(4, 1, 1)
	})
}

// TestReturnedMeanwhile: a claim stands still just before its payment, the same request comes to
// another desk, is sold there, and returned: the payment is void when the late one asks for it. It
// must not be made again, and the claim stays what it was.
func TestReturnedMeanwhile(t *testing.T) {
	t.Parallel()
	waiting, resume := make(chan struct{}), make(chan struct{})
	w := newWorld(t, wishes{desks: 2, options: brief})
	var once sync.Once
	w.shops[0].payments.client = &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		once.Do(func() {
			close(waiting)
			standStill(t, resume)
		})
		return web.Transport.RoundTrip(r)
	})}
	desks := w.open(t, 5, 1)
	first := desks[0].start("/claim", "k")
	await(t, waiting)
	r := into[receipt](t, desks[1].claim("k"), http.StatusCreated)
	into[receipt](t, desks[1].giveReturn(r.ID), http.StatusOK)
	close(resume)
	into[receipt](t, <-first, http.StatusOK)
	desks[0].audit(5, 0, 0)
}

// TestSoldOutStands: a request is stuck on its way, is sent again, and is told that all are sold.
// The one that was stuck must not sell what is returned later: its client has gone home.
func TestSoldOutStands(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"/claim", "/claim-now"} {
		t.Run(way[1:], func(t *testing.T) {
			t.Parallel()
			var came atomic.Bool
			waiting, resume := make(chan struct{}), make(chan struct{})
			d := newWorld(t, wishes{front: func(h http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.Header.Get("Idempotency-Key") == "stuck" && !came.Swap(true) {
						close(waiting)
						standStill(t, resume)
					}
					h.ServeHTTP(w, r)
				})
			}}).open(t, 1, 1)[0]
			first := d.start(way, "stuck")
			await(t, waiting)
			r := into[receipt](t, d.claim("quick"), http.StatusCreated)
			d.send(http.MethodPost, "/coupons/"+d.coupon+way, "", "Idempotency-Key", "stuck").is(t, soldOut)
			into[receipt](t, d.giveReturn(r.ID), http.StatusOK)
			close(resume)
			(<-first).is(t, soldOut)
			d.audit(1, 0, 0)
		})
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestLostReply: the API has done it, and the client never hears of it.
func TestLostReply(t *testing.T) {
	t.Parallel()
	var lose atomic.Bool
	w := newWorld(t, wishes{front: func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !lose.Load() {
				h.ServeHTTP(w, r)
				return
			}
			h.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		})
	}})
	d := w.open(t, 5, 3)[0]
	for _, way := range []string{"claim", "claim-now"} {
		url := d.url + "/coupons/" + d.coupon + "/" + way
		lose.Store(true)
		if a, err := request(t.Context(), http.MethodPost, url, "", "Idempotency-Key", "k"); err == nil {
			t.Fatalf("%s: the reply was not lost: %s", way, a.body)
		}
		lose.Store(false)
		into[receipt](t, d.send(http.MethodPost, "/coupons/"+d.coupon+"/"+way, "", "Idempotency-Key", "k"), http.StatusOK)
	}
	d.audit(3, 2, 1)
}

// TestLostCommit: the store has applied every commit, and its first answer to each is lost.
func TestLostCommit(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, wish wishes) {
		var lossy *lossyStore
		wish.wrap = func(b *backends) {
			lossy = &lossyStore{Backend: b.store, heard: map[string]bool{}}
			b.store = lossy
		}
		d := newWorld(t, wish).open(t, 5, 2)[0]
		r := into[receipt](t, d.claim("k"), http.StatusCreated)
		into[receipt](t, d.claimNow("k"), http.StatusCreated)
		into[receipt](t, d.giveReturn(r.ID), http.StatusOK)
		d.audit(4, 1, 0)
		if n := lossy.lost.Load(); n < 5 { // create, paying, sold, now, returned
			t.Errorf("only %d answers were lost", n)
		}
	})
}

// lossyStore loses its first answer to every commit that it applies.
type lossyStore struct {
	storage.Backend
	lost  atomic.Int64
	mu    sync.Mutex
	heard map[string]bool
}

func (l *lossyStore) Apply(ctx context.Context, batch []storage.Commit) []storage.Outcome {
	out := l.Backend.Apply(ctx, batch)
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, c := range batch {
		if out[i].Err == nil && !l.heard[c.Key] {
			l.heard[c.Key] = true
			l.lost.Add(1)
			out[i] = storage.Outcome{Err: fencing.AsUnknown(errors.New("the answer was lost"))}
		}
	}
	return out
}

// TestUnreliablePayments: half of the payments get no answer; the clients send again, and in the
// end everything is sold and paid once.
func TestUnreliablePayments(t *testing.T) {
	t.Parallel()
	d := newWorld(t, wishes{stub: &paymentStub{fail: 0.5}}).open(t, 10, 2)[0]
	for i := range 10 {
		key, sent := fmt.Sprint("k", i), 0
		for a := d.claim(key); a.status != http.StatusCreated; a = d.claim(key) {
			a.is(t, paymentUnknown)
			if p := a.problem(t); p.Outcome != "unknown" || a.header.Get("Retry-After") == "" {
				t.Errorf("got %s", a.body)
			}
			if sent++; sent == 100 {
				t.Fatal("100 times without an answer")
			}
		}
	}
	for _, r := range d.receipts()[:5] {
		for a := d.giveReturn(r.ID); a.status != http.StatusOK; a = d.giveReturn(r.ID) {
			if returned.status == a.status {
				break // decided the first time, and now the money is back, too
			}
			a.is(t, refundOpen)
		}
	}
	d.audit(5, 5, 5)
}

// TestDeclined: what is declined stays so, and takes no stock.
func TestDeclined(t *testing.T) {
	t.Parallel()
	w := newWorld(t, wishes{})
	d := desk{t: t, url: w.desks[0], coupon: "dear"}
	body := string(encode(coupon{ID: "dear", Stock: 1, Buckets: 1, Price: declinedAmount}))
	into[coupon](t, d.send(http.MethodPost, "/coupons", body), http.StatusCreated)
	for range 2 {
		d.claim("k").is(t, declined)
	}
	state := into[sale](t, d.send(http.MethodGet, "/coupons/dear/claims/k", ""), http.StatusOK)
	if state.State != saleDeclined {
		t.Errorf("got the state %q, want declined", state.State)
	}
	d.audit(1, 0, 0)
}

// TestPaidWithoutReceipt: a claim that nobody finishes is listed, and finished by its key.
func TestPaidWithoutReceipt(t *testing.T) {
	t.Parallel()
	var broken atomic.Bool
	w := newWorld(t, wishes{wrap: func(b *backends) { b.store = &brokenStore{b.store, &broken} }})
	d := w.open(t, 5, 1)[0]
	broken.Store(true)
	a := d.claim("k")
	a.is(t, unsettled)
	if p := a.problem(t); p.Outcome != "unknown" {
		t.Errorf("money may have been taken, and the outcome is %s", p.Outcome)
	}
	got := into[audit](t, d.send(http.MethodGet, "/coupons/"+d.coupon+"/audit", ""), http.StatusOK)
	if !got.AddsUp || got.Left != 5 || !slices.Equal(got.WithoutReceipt, []string{"k"}) {
		t.Errorf("got %+v, want one payment without a receipt", got)
	}
	state := into[sale](t, d.send(http.MethodGet, "/coupons/"+d.coupon+"/claims/k", ""), http.StatusOK)
	if state.State != salePaying {
		t.Errorf("got the state %q, want paying", state.State)
	}
	broken.Store(false)
	into[receipt](t, d.claim("k"), http.StatusCreated)
	d.audit(4, 1, 1)
}

// brokenStore fails every commit of a sale while it is broken.
type brokenStore struct {
	storage.Backend
	broken *atomic.Bool
}

func (b *brokenStore) Apply(ctx context.Context, batch []storage.Commit) []storage.Outcome {
	if b.broken.Load() && len(batch[0].Ops) > 1 {
		return slices.Repeat([]storage.Outcome{{Err: fencing.AsFailed(errors.New("broken"))}}, len(batch))
	}
	return b.Backend.Apply(ctx, batch)
}
