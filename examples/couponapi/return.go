package main

import (
	"context"
	"strconv"
	"strings"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/storage"
)

// giveReturn takes a sold coupon back into the bucket that it came from, and sends the money back.
// First the decision is committed, under the bucket's token, then the payment is voided: a late
// void does no harm, for a receipt that was returned stays so. A receipt that was returned before
// is a problem, but its void is sent again: it may be that which is missing.
func (s *shop) giveReturn(ctx context.Context, c coupon, id string) (r receipt, err error) {
	err = startOver(ctx, func() (err error) {
		r, err = s.returnOnce(ctx, c, id)
		return err
	})
	if err != nil && !returned.is(err) {
		return r, err
	}
	if r.Paid > 0 {
		if verr := s.payments.void(ctx, c.claim(r.Key)); verr != nil {
			p := refundOpen.because("receipt %s is returned; send the request again until the money is back, too", id)
			p.cause = verr
			return r, p
		}
	}
	return r, err
}

func (s *shop) returnOnce(ctx context.Context, c coupon, id string) (r receipt, err error) {
	if _, err := s.receipt(ctx, c, id); err != nil {
		return r, err // who asks for what was never sold takes no lock
	}
	b, err := c.bucketOfReceipt(id)
	if err != nil {
		return r, err
	}
	lease, err := s.locker.Acquire(ctx, c.bucket(b))
	if err != nil {
		return r, err
	}
	defer release(ctx, lease)
	rec, err := s.store.GetFenced(ctx, lease.Token(), receiptRecord+id)
	if err != nil {
		return r, err
	}
	if err := decode(rec, &r); err != nil {
		return r, err
	}
	if r.State == receiptReturned {
		return r, returned.because("receipt %s was returned, and its stock is back", id)
	}
	r.State = receiptReturned
	return r, s.commit(ctx, storage.Commit{
		Tokens: []fencing.Token{lease.Token()},
		Ops: []storage.Op{
			storage.Put(c.bucket(b), r.record(), encode(r)),
			storage.Add(c.bucket(b), leftRecord, 1, 0),
		},
	})
}

// bucketOfReceipt reads the bucket out of a receipt's id: b3.KEY.
func (c coupon) bucketOfReceipt(id string) (int, error) {
	bucket, key, _ := strings.Cut(id, ".")
	number, hasB := strings.CutPrefix(bucket, "b")
	n, err := strconv.Atoi(number)
	if !hasB || err != nil || strconv.Itoa(n) != number || validName("receipt", strings.TrimPrefix(key, "now.")) != nil {
		return 0, invalid.field("receipt", "%q is no receipt's id: they look like b0.KEY or b0.now.KEY", shorten(id))
	}
	if n < 0 || n >= c.Buckets {
		return 0, notFound.because("no receipt %s: coupon %s has buckets b0 to b%d", id, c.ID, c.Buckets-1)
	}
	return n, nil
}
