package main

import (
	"context"
	"errors"
	"strconv"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/storage"
)

// How a claim works, and why in this order.
//
//  1. Lock the claim (a resource of its own for every Idempotency-Key) and read inside its fence how
//     far it has come. The same request twice, at the same time or an hour later, meets here.
//  2. Lock a bucket and read its stock inside the fence.
//  3. Write down that a payment will be asked for.
//  4. Ask for the payment: the slow step, over which both locks are held. It is idempotent under
//     the claim's name.
//  5. ONE commit under both tokens: stock - 1, the receipt, and the claim is sold.
//
// A lease can end anywhere in between without its holder noticing (a pause, a slow payment). Then
// somebody else has the bucket or the claim, and the store refuses every later write of this one:
// nothing is sold, and nothing is counted twice. But the payment has been made, and no store
// checks that. So who is refused must not undo it: another attempt with the same key may be
// selling on it right now. It starts over under the same key, like everybody else who does not
// know: the payment answers as before, and the commit comes once.
//
// Only who can still write may give a payment up, and only by writing that down first: sold out
// after a payment is a state of the claim, and final. The void follows it, as often as anybody
// asks, and does no harm late: no attempt can sell this key any more.
//
// Every "no" is written down in the same way. A client that is told "sold out" goes home; the same
// request, sent before and stuck in a process that stands still, would else go on after a coupon was
// returned, and sell to somebody who has gone. (The load in this folder found that.)

// sale is the record of a claim. It goes from nothing, by way of paying or not, to one of the other
// states, which are final.
type sale struct {
	State   saleState `json:"state"`
	Receipt *receipt  `json:"receipt,omitempty"` // saleSold
}

type saleState string

const (
	saleNone     saleState = ""
	salePaying   saleState = "paying"   // a payment may have been made, or may yet be
	saleSold     saleState = "sold"     // paid, and taken from the stock
	saleDeclined saleState = "declined" // not paid, and will not be
	saleSoldOut  saleState = "sold-out" // before a payment was asked for, and so none ever will be
	saleVoid     saleState = "void"     // sold out after that: a payment that was made goes back
)

// claim sells one coupon, with a payment, under an idempotency key. replayed says that it was
// sold before.
func (s *shop) claim(ctx context.Context, c coupon, key string) (r receipt, replayed bool, err error) {
	var asked bool
	err = startOver(ctx, func() (err error) {
		r, replayed, err = s.claimOnce(ctx, c, key, &asked)
		return err
	})
	if _, said := errors.AsType[*problem](err); err != nil && asked && !said {
		p := unsettled.because("a payment may have been made; send the request again with the same Idempotency-Key")
		p.cause = err
		err = p
	}
	return r, replayed, err
}

// claimOnce is one attempt. asked becomes true when there may be a payment.
func (s *shop) claimOnce(ctx context.Context, c coupon, key string, asked *bool) (r receipt, replayed bool, err error) {
	own, err := s.locker.Acquire(ctx, c.claim(key))
	if err != nil {
		return r, false, err
	}
	defer release(ctx, own)
	was, err := s.sale(ctx, own.Token())
	if err != nil {
		return r, false, err
	}
	if was.State == saleSold {
		return *was.Receipt, true, nil
	}
	if err := s.refusal(ctx, c, key, was); err != nil {
		return r, false, err
	}
	*asked = *asked || was.State == salePaying

	bucket, err := s.takeBucket(ctx, c)
	if soldOut.is(err) {
		now := sale{State: saleSoldOut}
		if was.State == salePaying {
			now.State = saleVoid
		}
		if err := s.setSale(ctx, own.Token(), now); err != nil {
			return r, false, err
		}
		return r, false, s.refusal(ctx, c, key, now)
	} else if err != nil {
		return r, false, err
	}
	defer release(ctx, bucket)

	if was.State == saleNone {
		if err := s.setSale(ctx, own.Token(), sale{State: salePaying}); err != nil {
			return r, false, err
		}
	}
	// Not under the leases' contexts: what the payment says is worth knowing even after they have
	// ended, and whether they have is for the store to decide. An expired lease that nobody took
	// over is still good.
	*asked = true
	if err := s.payments.capture(ctx, c.claim(key), c.ID, c.Price); declined.is(err) {
		return r, false, errors.Join(err, s.setSale(ctx, own.Token(), sale{State: saleDeclined}))
	} else if err != nil {
		return r, false, err
	}

	b := c.bucketOf(bucket.Token().Resource)
	r = receipt{ID: "b" + strconv.Itoa(b) + "." + key, Coupon: c.ID, Bucket: b, Key: key, Paid: c.Price, State: receiptSold}
	err = s.commit(ctx, storage.Commit{
		Tokens: []fencing.Token{own.Token(), bucket.Token()},
		Ops: []storage.Op{
			storage.Add(c.bucket(b), leftRecord, -1, 0),
			storage.Put(c.bucket(b), r.record(), encode(r)),
			storage.Put(c.claim(key), saleRecord, encode(sale{State: saleSold, Receipt: &r})),
		},
	})
	return r, false, err
}

// refusal answers a claim that was decided not to be sold; nil if it was not. A payment that is void
// is voided every time: it may be that which was missing.
func (s *shop) refusal(ctx context.Context, c coupon, key string, v sale) error {
	switch v.State {
	case saleDeclined:
		return declined.because("the payment of key %s was declined before", key)
	case saleSoldOut:
		return soldOut.because("all %d of %s were sold when key %s came; claim again with a new key", c.Stock, c.ID, key)
	case saleVoid:
		if err := s.payments.void(ctx, c.claim(key)); err != nil {
			p := refundOpen.because("all %d of %s were sold before key %s was paid; send the request again until the payment is void", c.Stock, c.ID, key)
			p.cause = err
			return p
		}
		return soldOut.because("all %d of %s were sold before key %s was paid: the payment is void; claim again with a new key", c.Stock, c.ID, key)
	}
	return nil
}

// sale reads how far a claim has come, inside its fence.
func (s *shop) sale(ctx context.Context, t fencing.Token) (v sale, err error) {
	rec, err := s.store.GetFenced(ctx, t, saleRecord)
	if errors.Is(err, storage.ErrNotFound) {
		return v, nil
	} else if err != nil {
		return v, err
	}
	return v, decode(rec, &v)
}

func (s *shop) setSale(ctx context.Context, t fencing.Token, v sale) error {
	return s.commit(ctx, storage.Commit{
		Tokens: []fencing.Token{t},
		Ops:    []storage.Op{storage.Put(t.Resource, saleRecord, encode(v))},
	})
}
