package main

import (
	"context"
	"errors"
	"hash/fnv"
	"strconv"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/storage"
)

// claimNow sells one coupon without a payment: nothing slow, nothing read, and so no decision that
// a pause could make stale. It is one commit whose condition the store checks (stock - 1, never
// below 0), the relative of
//
//	UPDATE coupons SET n = n - 1 WHERE id = $1 AND n > 0
//
// which is all that is needed where the stock is a row of your own and nobody holds a lock over a
// slow step on it. Here others do, on the same buckets, so the commit has a token of its own.
//
// The key decides in which bucket it begins and in which order it goes on. A bucket that was empty
// has refused the key for good, so the same request takes the same way again, and ends where it
// ended before. That is why it cannot take any bucket that happens to be free, as claim does, which
// has a record of its own for every key.
func (s *shop) claimNow(ctx context.Context, c coupon, key string) (r receipt, replayed bool, err error) {
	h := fnv.New32a()
	_, _ = h.Write([]byte(key)) // it never fails
	first := int(h.Sum32()>>1) % c.Buckets
	for i := range c.Buckets {
		b := (first + i) % c.Buckets
		r = receipt{ID: "b" + strconv.Itoa(b) + ".now." + key, Coupon: c.ID, Bucket: b, Key: key, State: receiptSold}
		err = startOver(ctx, func() (err error) {
			replayed, err = s.takeNow(ctx, c, r)
			return err
		})
		if !errors.Is(err, storage.ErrBelowMinimum) {
			return r, replayed, err
		}
	}
	return receipt{}, false, soldOut.because("all %d of %s are sold", c.Stock, c.ID)
}

func (s *shop) takeNow(ctx context.Context, c coupon, r receipt) (replayed bool, err error) {
	bucket := c.bucket(r.Bucket)
	commit := storage.Commit{
		Ops: []storage.Op{
			storage.Require(bucket, r.record(), 0), // sold longer ago than keys are remembered
			storage.Add(bucket, leftRecord, -1, 0),
			storage.Put(bucket, r.record(), encode(r)),
		},
		Key: "now." + r.Key,
	}
	// Who was answered before needs no lock.
	_, replayed, err = s.store.Answered(ctx, commit)
	if !replayed && err == nil {
		lease, lerr := s.locker.Acquire(ctx, bucket)
		if lerr != nil {
			return false, lerr
		}
		commit.Tokens = []fencing.Token{lease.Token()}
		replayed, err = s.commitKeyed(ctx, commit, commit.Key)
		release(ctx, lease)
	}
	if errors.Is(err, storage.ErrVersionMismatch) {
		return true, nil
	}
	return replayed, err
}
