package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/storage"
)

// shopOptions tune a shop.
type shopOptions struct {
	ttl     time.Duration // how long a lease outlives its silent holder
	maxHold time.Duration // when a claim loses its leases at the latest: a payment that hangs holds nobody up for ever
	wait    time.Duration // how long a request waits for a lock
	label   string        // what this process calls itself
}

// shop is what the API does, without HTTP. It is safe for concurrent use, and any number of
// processes may have one over the same lock and store.
type shop struct {
	store    *storage.Store
	locker   *locking.Locker
	payments *payments
	stale    atomic.Int64 // commits and reads that the fence refused
}

// newShop wires a shop: the issuer raises every token in the store before the holder gets it.
func newShop(b *backends, p *payments, o shopOptions) (*shop, error) {
	s := &shop{payments: p}
	var err error
	s.store, err = storage.New(b.store, &storage.Options{OnEvent: func(e fencing.Event) {
		if e.Kind == fencing.EventRefused && e.Highest > 0 {
			s.stale.Add(1)
		}
	}})
	if err != nil {
		return nil, err
	}
	issuer, err := locking.NewIssuer(b.lock, []fencing.Fence{s.store}, nil)
	if err != nil {
		return nil, err
	}
	s.locker, err = locking.New(issuer, &locking.Options{TTL: o.ttl, MaxHold: o.maxHold, Wait: o.wait, Label: o.label})
	return s, err
}

// The records of a coupon. Each has one resource, whose fence guards it.
const (
	infoRecord    = "info"     // coupon:42            what was created
	leftRecord    = "left"     // coupon:42.b0         how many are left in the bucket
	receiptRecord = "receipt." // coupon:42.b0         what was sold from it, by receipt
	saleRecord    = "sale"     // coupon:42.claim.KEY  how far the claim with this key has come
)

// coupon is what is sold. It never changes.
type coupon struct {
	ID      string `json:"id"`
	Stock   int64  `json:"stock"`   // at the beginning
	Buckets int    `json:"buckets"` // into how many the stock is split
	Price   int64  `json:"price"`   // in cents
}

func (c coupon) resource() string { return "coupon:" + c.ID }

// claim names the resource of one claim: whoever has its token may decide what becomes of the key.
func (c coupon) claim(key string) string { return c.resource() + ".claim." + key }

// receipt is what a buyer gets. It says nothing that differs when the same request comes again.
type receipt struct {
	ID     string       `json:"id"` // b0.KEY, or b0.now.KEY without a payment
	Coupon string       `json:"coupon"`
	Bucket int          `json:"bucket"`
	Key    string       `json:"key"`
	Paid   int64        `json:"paid"` // in cents; 0: there is no payment
	State  receiptState `json:"state"`
}

type receiptState string

const (
	receiptSold     receiptState = "sold"
	receiptReturned receiptState = "returned"
)

// record returns the key of the receipt's record in its bucket.
func (r receipt) record() string { return receiptRecord + r.ID }

// create creates a coupon with all its stock, in one commit over all of its buckets. The same
// coupon again is no error, and takes no locks: they are needed for selling.
func (s *shop) create(ctx context.Context, c coupon) error {
	if err := s.compare(ctx, c); !notFound.is(err) {
		return err
	}
	resources := []string{c.resource()}
	ops := []storage.Op{
		storage.Require(c.resource(), infoRecord, 0),
	}
	for i := range c.Buckets {
		resources = append(resources, c.bucket(i))
		ops = append(ops, storage.Put(c.bucket(i), leftRecord, storage.Counter(c.share(i))))
	}
	// Require and Put of one record: what is required is judged before anything is written.
	ops = append(ops, storage.Put(c.resource(), infoRecord, encode(c)))
	leases, err := s.locker.AcquireAll(ctx, resources...)
	if err != nil {
		return err
	}
	defer func() { _ = leases.Release(ctx) }()
	err = s.commit(ctx, storage.Commit{Tokens: leases.Tokens(), Ops: ops})
	if errors.Is(err, storage.ErrVersionMismatch) { // somebody else was quicker
		return s.compare(ctx, c)
	}
	return err
}

// compare says whether the coupon of this name is this one: nil, exists or notFound.
func (s *shop) compare(ctx context.Context, c coupon) error {
	there, err := s.coupon(ctx, c.ID)
	if err == nil && there != c {
		err = exists.because("%s was created with stock %d, buckets %d, price %d", there.ID, there.Stock, there.Buckets, there.Price)
	}
	return err
}

// coupon finds a coupon.
func (s *shop) coupon(ctx context.Context, id string) (c coupon, err error) {
	rec, err := s.store.Get(ctx, coupon{ID: id}.resource(), infoRecord)
	if errors.Is(err, storage.ErrNotFound) {
		return c, notFound.because("no coupon %s", id)
	} else if err != nil {
		return c, err
	}
	return c, decode(rec, &c)
}

// commit commits under a key of its own, so that a lost answer is asked for again and not guessed:
// what was applied is answered as applied, even if the token has been overtaken since. An answer
// that was lost stays unknown until one comes, whatever becomes of the tries after it.
func (s *shop) commit(ctx context.Context, c storage.Commit) error {
	_, err := s.commitKeyed(ctx, c, fencing.NewGrant()) // random, and of the right grammar
	return err
}

// commitKeyed is commit under a key that others may send, too. replayed says that they were first.
func (s *shop) commitKeyed(ctx context.Context, c storage.Commit, key string) (replayed bool, err error) {
	c.Key = key
	var open error // the answer that was lost
	for try := range 4 {
		if try > 0 && !pause(ctx, time.Duration(try)*20*time.Millisecond) {
			break
		}
		var res storage.Result
		res, err = s.store.Commit(ctx, c)
		switch fencing.OutcomeOf(err) {
		case fencing.Applied, fencing.Refused:
			return res.Replayed && open == nil, err
		case fencing.Unknown:
			open = err
		}
	}
	return false, cmp.Or(open, err)
}

// overtaken says that another holder has the lock by now. Nothing was written under the old
// token: start over with a new one.
func overtaken(err error) bool {
	return errors.Is(err, fencing.ErrStale) || errors.Is(err, locking.ErrLost) || errors.Is(err, errVoided)
}

// startOver runs one attempt after the other while they are overtaken. An attempt begins with a
// new lock and reads anew, never with old values.
func startOver(ctx context.Context, attempt func() error) error {
	var err error
	for try := range 10 {
		if try > 0 && !pause(ctx, rand.N(50*time.Millisecond)) {
			return err
		}
		if err = attempt(); !overtaken(err) {
			return err
		}
	}
	return err
}

// pause waits; false if ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// release gives a lease back. A lost one is no error: the store has had the say.
func release(ctx context.Context, l *locking.Lease) { _ = l.Release(ctx) }

func encode(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // the records always marshal
	}
	return data
}

func decode(rec storage.Record, v any) error {
	if err := json.Unmarshal(rec.Value, v); err != nil {
		return fmt.Errorf("the record %s/%s: %w", rec.Resource, rec.Key, err)
	}
	return nil
}
