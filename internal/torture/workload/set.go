package workload

import (
	"context"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/torture/history"
	"github.com/fencegate/fencegate/storage"
)

// set puts a new element each turn. Half of the turns use a key, and find out what became of them.
type set struct{}

func (set) Name() string { return "set" }

func (set) Resources(prefix string, i int) []string { return []string{named(prefix, "set", i)} }

// Seed writes nothing: a set begins empty.
func (set) Seed(context.Context, Access, []string) ([]history.Cell, error) { return nil, nil }

func (w set) Turn(ctx context.Context, s *Seat, resources []string) {
	s.take(ctx, plan{
		name:  w.Name(),
		keyed: s.Rand.IntN(2) == 0,
		write: func(_ []fencing.Token, _ []history.Cell, id string) []storage.Op {
			return []storage.Op{storage.Put(resources[0], "e."+id, []byte(id))}
		},
	}, resources)
}

func (set) Final(ctx context.Context, a Access, resources []string) ([]history.Cell, error) {
	return records(ctx, a, resources)
}
