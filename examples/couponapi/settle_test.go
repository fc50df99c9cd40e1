package main

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/storage"
)

// script is a store whose answers a test may change.
type script struct {
	storage.Backend
	apply func(ctx context.Context, batch []storage.Commit, next apply) []storage.Outcome
}

// apply is the method of that name.
type apply func(ctx context.Context, batch []storage.Commit) []storage.Outcome

func (s *script) Apply(ctx context.Context, batch []storage.Commit) []storage.Outcome {
	return s.apply(ctx, batch, s.Backend.Apply)
}

// TestLostThenFailed: the first answer to a commit is lost, and the store can be reached no more. It
// has been applied, so nobody may be told that nothing happened.
func TestLostThenFailed(t *testing.T) {
	t.Parallel()
	var down atomic.Bool
	lost := &script{apply: func(ctx context.Context, batch []storage.Commit, next apply) []storage.Outcome {
		switch {
		case down.Load() && len(batch[0].Ops) == 2: // the return
			return []storage.Outcome{{Err: fencing.AsFailed(errors.New("no connection"))}}
		case len(batch[0].Ops) == 2:
			next(ctx, batch)
			down.Store(true)
			return []storage.Outcome{{Err: fencing.AsUnknown(errors.New("the answer was lost"))}}
		}
		return next(ctx, batch)
	}}
	d := newWorld(t, wishes{wrap: func(b *backends) { lost.Backend, b.store = b.store, lost }}).open(t, 5, 2)[0]
	r := into[receipt](t, d.claim("k"), http.StatusCreated)
	a := d.giveReturn(r.ID)
	a.is(t, storeUnknown)
	if p := a.problem(t); p.Outcome != "unknown" {
		t.Errorf("it was returned, and the outcome is %s", p.Outcome)
	}
	d.giveReturn(r.ID).is(t, returned) // sent again, it is settled
	d.audit(5, 0, 0)
}

// TestDecidedFirst: a return that could not be decided leaves the money where it is.
func TestDecidedFirst(t *testing.T) {
	t.Parallel()
	var broken atomic.Bool
	d := newWorld(t, wishes{wrap: func(b *backends) { b.store = &brokenStore{b.store, &broken} }}).open(t, 5, 1)[0]
	r := into[receipt](t, d.claim("k"), http.StatusCreated)
	broken.Store(true)
	d.giveReturn(r.ID).is(t, storeFailed)
	broken.Store(false)
	d.audit(4, 1, 1)
}

// TestRefundOpen: decided, and the payment service gives no answer. The same request, sent again,
// gives the money back.
func TestRefundOpen(t *testing.T) {
	t.Parallel()
	w := newWorld(t, wishes{})
	d := w.open(t, 5, 1)[0]
	r := into[receipt](t, d.claim("k"), http.StatusCreated)
	working := w.shops[0].payments.client
	w.shops[0].payments.client = &http.Client{Transport: roundTrip(func(*http.Request) (*http.Response, error) {
		return nil, errors.New("no answer")
	})}
	d.giveReturn(r.ID).is(t, refundOpen)
	w.shops[0].payments.client = working
	got := into[audit](t, d.send(http.MethodGet, "/coupons/"+d.coupon+"/audit", ""), http.StatusOK)
	if !got.AddsUp || got.Left != 5 || !slices.Equal(got.WithoutReceipt, []string{"k"}) {
		t.Errorf("got %+v, want a payment whose receipt was returned", got)
	}
	d.giveReturn(r.ID).is(t, returned)
	d.audit(5, 0, 0)
}

// TestGoneMeanwhile: a claim sees the last coupon, which is sold before it has the lock. It asks for no
// payment.
func TestGoneMeanwhile(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, wish wishes) {
		var late *lateReader
		wish.wrap = func(b *backends) {
			late = &lateReader{Backend: b.store}
			b.store = late
		}
		d := newWorld(t, wish).open(t, 1, 1)[0]
		meanwhile := func() {
			if a := <-d.start("/claim", "first"); a.status != http.StatusCreated {
				t.Errorf("the first claim: got %s", a.body)
			}
		}
		late.then.Store(&meanwhile)
		d.claim("second").is(t, soldOut)
		d.audit(0, 1, 1)
		state := into[sale](t, d.send(http.MethodGet, "/coupons/"+d.coupon+"/claims/second", ""), http.StatusOK)
		if state.State != saleSoldOut {
			t.Errorf("got the state %q: a payment was asked for", state.State)
		}
	})
}

// lateReader lets something happen, once, between a plain read of a stock and its answer.
type lateReader struct {
	storage.Backend
	then atomic.Pointer[func()]
}

func (l *lateReader) Get(ctx context.Context, resource, key string) (storage.Record, error) {
	rec, err := l.Backend.Get(ctx, resource, key)
	if key == leftRecord {
		if then := l.then.Swap(nil); then != nil {
			(*then)()
		}
	}
	return rec, err
}

// TestForgottenKey: the store has forgotten the key of a claim-now, as it may after a day. The bucket
// that sold has the receipt.
func TestForgottenKey(t *testing.T) {
	t.Parallel()
	forgetful := &script{apply: func(ctx context.Context, batch []storage.Commit, next apply) []storage.Outcome {
		batch = slices.Clone(batch)
		for i := range batch {
			batch[i].Key = fencing.NewGrant()
		}
		return next(ctx, batch)
	}}
	d := newWorld(t, wishes{wrap: func(b *backends) { forgetful.Backend, b.store = b.store, forgetful }}).open(t, 5, 2)[0]
	first := into[receipt](t, d.claimNow("k"), http.StatusCreated)
	if again := into[receipt](t, d.claimNow("k"), http.StatusOK); again != first {
		t.Errorf("got %+v and %+v", first, again)
	}
	d.audit(4, 1, 0)
}

// TestSentTwiceAtOnce: two sends of one claim-now both find that nobody has answered it. One of them
// sells, and the other is told that it was sold before.
func TestSentTwiceAtOnce(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, wish wishes) {
		var d desk
		var looked atomic.Bool
		racing := &script{apply: func(ctx context.Context, batch []storage.Commit, next apply) []storage.Outcome {
			out := next(ctx, batch)
			if batch[0].Key == "now.k" && !looked.Swap(true) { // the first look-up; the other request comes in between
				if a := <-d.start("/claim-now", "k"); a.status != http.StatusCreated {
					t.Errorf("the other request: got %s", a.body)
				}
			}
			return out
		}}
		wish.wrap = func(b *backends) { racing.Backend, b.store = b.store, racing }
		d = newWorld(t, wish).open(t, 5, 2)[0]
		into[receipt](t, d.claimNow("k"), http.StatusOK)
		d.audit(4, 1, 0)
	})
}

// TestClientGone: the client hangs up while its payment is under way. The sale is finished.
func TestClientGone(t *testing.T) {
	t.Parallel()
	h := hold(t, "k")
	d := newWorld(t, wishes{stub: h.stub}).open(t, 5, 1)[0]
	ctx, hangUp := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() {
		_, err := request(ctx, http.MethodPost, d.url+"/coupons/"+d.coupon+"/claim", "", "Idempotency-Key", "k")
		gone <- err
	}()
	await(t, h.waiting)
	hangUp()
	if err := <-gone; err == nil {
		t.Fatal("the client has got an answer")
	}
	close(h.resume)
	for until := time.Now().Add(30 * time.Second); len(d.receipts()) == 0; {
		if time.Now().After(until) {
			t.Fatal("nothing was sold")
		}
	}
	d.audit(4, 1, 1)
}

// TestCreatedBefore: who creates a coupon that is there takes no locks from those who buy it.
func TestCreatedBefore(t *testing.T) {
	t.Parallel()
	h := hold(t, "k")
	d := newWorld(t, wishes{stub: h.stub}).open(t, 5, 2)[0]
	claim := d.start("/claim", "k")
	await(t, h.waiting)
	same := coupon{ID: d.coupon, Stock: 5, Buckets: 2, Price: 500}
	into[coupon](t, d.send(http.MethodPost, "/coupons", string(encode(same))), http.StatusCreated)
	same.Stock++
	d.send(http.MethodPost, "/coupons", string(encode(same))).is(t, exists)
	select {
	case a := <-claim:
		t.Fatalf("the claim was over first: %s", a.body)
	default:
	}
	close(h.resume)
	into[receipt](t, <-claim, http.StatusCreated)
}
