package workload

import (
	"context"
	"fmt"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/torture/history"
	"github.com/fencegate/fencegate/storage"
)

// register reads a value and writes the next one.
type register struct{}

func (register) Name() string { return "register" }

func (register) Resources(prefix string, i int) []string {
	return []string{named(prefix, "register", i)}
}

func (register) Seed(ctx context.Context, a Access, resources []string) ([]history.Cell, error) {
	return seed(ctx, a, resources, storage.Put(resources[0], "value", []byte("0 seed")))
}

func (w register) Turn(ctx context.Context, s *Seat, resources []string) {
	r := resources[0]
	s.take(ctx, plan{
		name:  w.Name(),
		reads: []storage.RecordID{{Resource: r, Key: "value"}},
		write: func(_ []fencing.Token, cells []history.Cell, id string) []storage.Op {
			return []storage.Op{storage.Put(r, "value", fmt.Appendf(nil, "%d %s", count(cells[0].Value)+1, id))}
		},
	}, resources)
}

func (register) Final(ctx context.Context, a Access, resources []string) ([]history.Cell, error) {
	return records(ctx, a, resources)
}
