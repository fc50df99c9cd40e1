package workload

import (
	"context"
	"strconv"
	"strings"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/torture/history"
	"github.com/fencegate/fencegate/storage"
)

// stock is how many coupons there are: more than a run can take; scarce in every third group, where they
// run out.
const (
	stock  = 1_000_000
	scarce = 60
)

// coupon takes one from the stock, and writes a receipt in the same commit.
type coupon struct{}

func (coupon) Name() string { return "coupon" }

func (coupon) Resources(prefix string, i int) []string { return []string{named(prefix, "coupon", i)} }

func (coupon) Seed(ctx context.Context, a Access, resources []string) ([]history.Cell, error) {
	return seed(ctx, a, resources, storage.Put(resources[0], "stock", storage.Counter(stockOf(resources[0]))))
}

// stockOf returns what a group begins with, whose resource is as named made it.
func stockOf(resource string) int64 {
	i, err := strconv.Atoi(resource[strings.LastIndexByte(resource, ':')+1:])
	if err == nil && i%3 == 2 {
		return scarce
	}
	return stock
}

func (w coupon) Turn(ctx context.Context, s *Seat, resources []string) {
	p := plan{
		name: w.Name(), keyed: true,
		write: func(_ []fencing.Token, _ []history.Cell, id string) []storage.Op {
			return []storage.Op{
				storage.Add(resources[0], "stock", -1, 0),
				storage.Put(resources[0], "receipt."+id, []byte(id)),
			}
		},
	}
	if s.Locked != nil && s.Rand.IntN(3) == 0 {
		t := &turn{Seat: s, plan: p, resources: resources}
		a := t.attempt(nil, nil)
		_, _ = t.resolve(ctx, nil, a, t.send(ctx, a))
		return
	}
	s.take(ctx, p, resources)
}

func (coupon) Final(ctx context.Context, a Access, resources []string) ([]history.Cell, error) {
	return records(ctx, a, resources)
}
