// Package memstore is a storage backend in memory, for tests, examples and the lab.
//
// # Guarantees
//
// Those of package storage, for as long as the process lives. One mutex makes every
// operation one atomic step. A resource that has no records costs its name, and 64 bytes at most
// on average where there are many.
//
// # What is not guaranteed
//
// Nothing outlives the process. That loss needs no incarnation: the data is lost with
// the marks.
//
// # Clocks
//
// The process's monotonic clock tells when an idempotency record is overdue.
package memstore

import (
	"context"
	"sync"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/storage"
)

// Options tunes [New]. Nil and the zero value mean the defaults.
type Options struct {
	// KeyRetention is how long the answer to a commit with an idempotency key is kept at least;
	// negative: for ever. After it, and once the commit's token is not the mark any more, later
	// commits of the resource with a key remove it. Default: 24 h.
	KeyRetention time.Duration
}

// Backend is a storage.Backend in memory. It is safe for concurrent use and never
// blocks: contexts are looked at once, before anything is done; by [Backend.Sweep] and
// [Backend.EvictAll] before each step.
type Backend struct {
	retention time.Duration

	mu      sync.Mutex // guards everything below; nothing blocks under it
	marks   marks
	bases   map[string]int64                     // the highest version of a resource's deleted records, where there are any
	records map[string]map[string]storage.Record // by resource and key
	answers map[string]*answers                  // by resource
}

var _ storage.Backend = (*Backend)(nil)

// New returns an empty backend.
func New(o *Options) *Backend {
	opt := Options{}
	if o != nil {
		opt = *o
	}
	if opt.KeyRetention == 0 {
		opt.KeyRetention = 24 * time.Hour
	}
	return &Backend{
		retention: opt.KeyRetention, marks: newMarks(),
		bases: map[string]int64{}, records: map[string]map[string]storage.Record{}, answers: map[string]*answers{},
	}
}

// change replaces a resource's mark.
func (b *Backend) change(ctx context.Context, name string, op func(fencing.Mark) (fencing.Mark, error)) error {
	if err := ctx.Err(); err != nil {
		return fencing.AsFailed(err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	before := b.marks.get(name)
	after, err := op(before)
	if err == nil && after != before {
		err = b.marks.set(name, after)
	}
	return err
}

// Raise implements fencing.Fence.
func (b *Backend) Raise(ctx context.Context, t fencing.Token) error {
	return b.change(ctx, t.Resource, func(m fencing.Mark) (fencing.Mark, error) { return m.Raise(t) })
}

// Retire implements fencing.Fence.
func (b *Backend) Retire(ctx context.Context, t fencing.Token) error {
	return b.change(ctx, t.Resource, func(m fencing.Mark) (fencing.Mark, error) { return m.Retire(t), nil })
}

// Evict implements fencing.Fence.
func (b *Backend) Evict(ctx context.Context, t fencing.Token) error {
	return b.change(ctx, t.Resource, func(m fencing.Mark) (fencing.Mark, error) { return m.Evict(t), nil })
}

// Mark implements fencing.Fence.
func (b *Backend) Mark(ctx context.Context, name string) (fencing.Mark, error) {
	if err := ctx.Err(); err != nil {
		return fencing.Mark{}, fencing.AsFailed(err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.marks.get(name), nil
}

// Apply implements storage.Backend.
func (b *Backend) Apply(ctx context.Context, batch []storage.Commit) []storage.Outcome {
	out := make([]storage.Outcome, len(batch))
	for i, c := range batch {
		if err := ctx.Err(); err != nil {
			out[i].Err = fencing.AsFailed(err)
			continue
		}
		out[i].Result, out[i].Err = b.apply(c)
	}
	return out
}

func (b *Backend) apply(c storage.Commit) (storage.Result, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	v := storage.View{
		Marks:   make(map[string]fencing.Mark, len(c.Tokens)),
		Bases:   map[string]int64{},
		Records: make(map[storage.RecordID]storage.Record, len(c.Ops)),
	}
	id, keyed := c.KeyID()
	if keyed {
		var err error
		if v.Answer, err = b.answer(id); err != nil {
			return storage.Result{}, err
		}
	}
	for _, t := range c.Tokens {
		v.Marks[t.Resource] = b.marks.get(t.Resource)
		if base := b.bases[t.Resource]; base > 0 {
			v.Bases[t.Resource] = base
		}
	}
	for _, op := range c.Ops {
		if rec, ok := b.records[op.Resource][op.Key]; ok {
			v.Records[op.ID()] = rec
		}
	}
	res, ch, err := storage.Evaluate(c, v)
	if ch.Answer != nil {
		b.remember(id, *ch.Answer)
	}
	if err != nil {
		return storage.Result{}, err
	}
	b.write(ch)
	return res, nil
}
