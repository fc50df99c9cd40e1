package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/storage"
)

// A lock lets one claim work at a time, and a claim holds it for as long as its payment takes. So
// the stock of a hot coupon is split into buckets, each with a lock of its own: N buckets are N
// payments at a time. The total is their sum.

func (c coupon) bucket(i int) string { return c.resource() + ".b" + strconv.Itoa(i) }

// share is the stock that bucket i begins with: the first get what cannot be split.
func (c coupon) share(i int) int64 {
	n := int64(c.Buckets)
	share := c.Stock / n
	if int64(i) < c.Stock%n {
		share++
	}
	return share
}

// bucketOf returns the index of a bucket's resource.
func (c coupon) bucketOf(resource string) int {
	for i := range c.Buckets {
		if c.bucket(i) == resource {
			return i
		}
	}
	panic("no bucket of " + c.ID + ": " + resource)
}

// stock returns what is left in each bucket. The reads are plain, one after the other: on a busy
// coupon the sum may never have been true at one moment.
func (s *shop) stock(ctx context.Context, c coupon) ([]int64, error) {
	left := make([]int64, c.Buckets)
	for i := range left {
		rec, err := s.store.Get(ctx, c.bucket(i), leftRecord)
		if err != nil {
			return nil, err
		}
		if left[i], err = count(rec); err != nil {
			return nil, err
		}
	}
	return left, nil
}

// takeBucket takes out a lease on a bucket that has stock: any that is free, the next one where
// one is taken or empty.
func (s *shop) takeBucket(ctx context.Context, c coupon) (*locking.Lease, error) {
	for {
		left, err := s.stock(ctx, c)
		if err != nil {
			return nil, err
		}
		// A plain read says what was true a moment ago, and "sold out" never means more.
		var stocked []string
		for i, n := range left {
			if n > 0 {
				stocked = append(stocked, c.bucket(i))
			}
		}
		if len(stocked) == 0 {
			return nil, soldOut.because("all %d of %s are sold", c.Stock, c.ID)
		}
		lease, err := s.locker.AcquireAny(ctx, stocked...)
		if err != nil {
			return nil, err
		}
		// From here on nobody else writes: what the fenced read says stays true for this token.
		n, err := s.left(ctx, lease.Token())
		if err == nil && n > 0 {
			return lease, nil
		}
		release(ctx, lease)
		if err != nil {
			return nil, err
		}
	}
}

// left reads a bucket's stock inside the fence.
func (s *shop) left(ctx context.Context, t fencing.Token) (int64, error) {
	rec, err := s.store.GetFenced(ctx, t, leftRecord)
	if err != nil {
		return 0, err
	}
	return count(rec)
}

func count(rec storage.Record) (int64, error) {
	n, ok := storage.ParseCounter(rec.Value)
	if !ok {
		return 0, fmt.Errorf("the record %s/%s is no counter", rec.Resource, rec.Key)
	}
	return n, nil
}

// receipts lists up to limit receipts after the one with the id after, bucket by bucket.
func (s *shop) receipts(ctx context.Context, c coupon, after string, limit int) ([]receipt, error) {
	first, from := 0, ""
	if after != "" {
		b, err := c.bucketOfReceipt(after)
		if err != nil {
			return nil, err
		}
		first, from = b, receiptRecord+after
	}
	list := []receipt{}
	for i := first; i < c.Buckets && len(list) < limit; i++ {
		recs, err := s.store.List(ctx, c.bucket(i), receiptRecord, from, limit-len(list))
		if err != nil {
			return nil, err
		}
		for _, rec := range recs {
			var r receipt
			if err := decode(rec, &r); err != nil {
				return nil, err
			}
			list = append(list, r)
		}
		from = ""
	}
	return list, nil
}

// receipt finds a receipt.
func (s *shop) receipt(ctx context.Context, c coupon, id string) (r receipt, err error) {
	b, err := c.bucketOfReceipt(id)
	if err != nil {
		return r, err
	}
	rec, err := s.store.Get(ctx, c.bucket(b), receiptRecord+id)
	if errors.Is(err, storage.ErrNotFound) {
		return r, notFound.because("no receipt %s of coupon %s", id, c.ID)
	} else if err != nil {
		return r, err
	}
	return r, decode(rec, &r)
}
