package workload

import (
	"context"
	"fmt"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/torture/history"
	"github.com/fencegate/fencegate/storage"
)

// log appends an entry that says who was let in.
type log struct{}

func (log) Name() string { return "log" }

func (log) Resources(prefix string, i int) []string { return []string{named(prefix, "log", i)} }

func (log) Seed(ctx context.Context, a Access, resources []string) ([]history.Cell, error) {
	return seed(ctx, a, resources, storage.Put(resources[0], "length", storage.Counter(0)))
}

func (w log) Turn(ctx context.Context, s *Seat, resources []string) {
	r := resources[0]
	s.take(ctx, plan{
		name:  w.Name(),
		reads: []storage.RecordID{{Resource: r, Key: "length"}},
		write: func(tokens []fencing.Token, cells []history.Cell, id string) []storage.Op {
			n := count(cells[0].Value) + 1
			return []storage.Op{
				storage.Put(r, "length", storage.Counter(n)),
				storage.Put(r, fmt.Sprintf("entry.%08d", n), fmt.Appendf(nil, "%d %s %s", tokens[0].Number, history.Fingerprint(tokens[0].Grant), id)),
			}
		},
	}, resources)
}

func (log) Final(ctx context.Context, a Access, resources []string) ([]history.Cell, error) {
	return records(ctx, a, resources)
}
