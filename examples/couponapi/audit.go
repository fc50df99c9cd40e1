package main

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/fencegate/fencegate/storage"
)

// audit is what a coupon's stock, receipts and payments say together. It is exact while nobody
// buys; else it is a look in passing.
type audit struct {
	Stock    int64 `json:"stock"`    // at the beginning
	Left     int64 `json:"left"`     // over all buckets
	Sold     int64 `json:"sold"`     // receipts that were not returned
	Returned int64 `json:"returned"` // receipts that were
	AddsUp   bool  `json:"adds_up"`  // left + sold = stock, and no receipt lacks its payment

	Captured       int64    `json:"captured"`        // payments
	WithoutReceipt []string `json:"without_receipt"` // captured payments that no sold receipt goes with: their keys
	WithoutPayment []string `json:"without_payment"` // sold receipts that were never paid: their ids
}

func (s *shop) audit(ctx context.Context, c coupon) (audit, error) {
	a := audit{Stock: c.Stock, WithoutReceipt: []string{}, WithoutPayment: []string{}}
	left, err := s.stock(ctx, c)
	if err != nil {
		return a, err
	}
	for _, n := range left {
		a.Left += n
	}
	paid := map[string]string{} // the key of each payment that there must be, and its receipt's id
	for after := ""; ; {
		page, err := s.receipts(ctx, c, after, maxReceipts)
		if err != nil {
			return a, err
		}
		for _, r := range page {
			after = r.ID
			if r.State == receiptReturned {
				a.Returned++
				continue
			}
			a.Sold++
			if r.Paid > 0 {
				paid[c.claim(r.Key)] = r.ID
			}
		}
		if len(page) < maxReceipts {
			break
		}
	}
	if err := s.auditPayments(ctx, c, paid, &a); err != nil {
		return a, err
	}
	a.AddsUp = a.Left+a.Sold == a.Stock && len(a.WithoutPayment) == 0
	return a, nil
}

// auditPayments compares the payment service's books with the receipts.
func (s *shop) auditPayments(ctx context.Context, c coupon, paid map[string]string, a *audit) error {
	for after := ""; ; {
		page, err := s.payments.list(ctx, c.ID, after)
		if err != nil {
			return err
		}
		if len(page) == 0 {
			break
		}
		for _, p := range page {
			after = p.Key
			if p.State != paymentCaptured {
				continue
			}
			a.Captured++
			if _, ok := paid[p.Key]; ok {
				delete(paid, p.Key)
				continue
			}
			a.WithoutReceipt = append(a.WithoutReceipt, strings.TrimPrefix(p.Key, c.claim("")))
		}
	}
	a.WithoutPayment = append(a.WithoutPayment, slices.Sorted(maps.Values(paid))...)
	return nil
}

// state tells how far the claim with a key has come.
func (s *shop) state(ctx context.Context, c coupon, key string) (v sale, err error) {
	rec, err := s.store.Get(ctx, c.claim(key), saleRecord)
	if errors.Is(err, storage.ErrNotFound) {
		return v, notFound.because("no claim of %s with the key %s has come to its payment", c.ID, key)
	} else if err != nil {
		return v, err
	}
	return v, decode(rec, &v)
}
