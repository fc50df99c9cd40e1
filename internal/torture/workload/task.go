package workload

import (
	"context"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/torture/history"
	"github.com/fencegate/fencegate/storage"
)

// task makes two writes that belong together.
type task struct{}

func (task) Name() string { return "task" }

func (task) Resources(prefix string, i int) []string { return []string{named(prefix, "task", i)} }

func (w task) Seed(ctx context.Context, a Access, resources []string) ([]history.Cell, error) {
	return seed(ctx, a, resources, w.both(resources[0], "seed")...)
}

func (w task) Turn(ctx context.Context, s *Seat, resources []string) {
	r := resources[0]
	s.take(ctx, plan{
		name:  w.Name(),
		reads: []storage.RecordID{{Resource: r, Key: "left"}, {Resource: r, Key: "right"}},
		write: func(_ []fencing.Token, _ []history.Cell, id string) []storage.Op { return w.both(r, id) },
	}, resources)
}

func (task) both(resource, value string) []storage.Op {
	return []storage.Op{storage.Put(resource, "left", []byte(value)), storage.Put(resource, "right", []byte(value))}
}

func (task) Final(ctx context.Context, a Access, resources []string) ([]history.Cell, error) {
	return records(ctx, a, resources)
}
