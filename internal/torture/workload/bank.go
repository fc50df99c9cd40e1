package workload

import (
	"context"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/torture/history"
	"github.com/fencegate/fencegate/storage"
)

// bank moves money between two accounts, which have 1000 together.
type bank struct{}

func (bank) Name() string { return "bank" }

func (bank) Resources(prefix string, i int) []string {
	name := named(prefix, "bank", i)
	return []string{name + "-a", name + "-b"} // sorted: that is how locks are taken
}

func (bank) Seed(ctx context.Context, a Access, resources []string) ([]history.Cell, error) {
	return seed(ctx, a, resources,
		storage.Put(resources[0], "balance", storage.Counter(500)), storage.Put(resources[1], "balance", storage.Counter(500)))
}

func (w bank) Turn(ctx context.Context, s *Seat, resources []string) {
	s.take(ctx, plan{
		name:  w.Name(),
		reads: []storage.RecordID{{Resource: resources[0], Key: "balance"}, {Resource: resources[1], Key: "balance"}},
		write: func(_ []fencing.Token, cells []history.Cell, _ string) []storage.Op {
			a, b := count(cells[0].Value), count(cells[1].Value)
			amount := min(1+s.Rand.Int64N(10), a)
			if a == 0 || b > 0 && s.Rand.IntN(2) == 0 {
				amount = -min(1+s.Rand.Int64N(10), b)
			}
			return []storage.Op{
				storage.Put(resources[0], "balance", storage.Counter(a-amount)),
				storage.Put(resources[1], "balance", storage.Counter(b+amount)),
			}
		},
	}, resources)
}

func (bank) Final(ctx context.Context, a Access, resources []string) ([]history.Cell, error) {
	return records(ctx, a, resources)
}
