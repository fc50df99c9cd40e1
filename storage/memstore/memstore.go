// Package memstore is a storage backend in memory, for tests, examples and the lab.
//
// # Guarantees
//
// Those of package storage, for as long as the process lives. One mutex makes every
// operation one atomic step.
//
// # What is not guaranteed
//
// Nothing outlives the process. That loss needs no incarnation: the data is lost with
// the marks.
package memstore

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/storage"
)

// Backend is a storage.Backend in memory. It is safe for concurrent use and never
// blocks: contexts are looked at once, before anything is done.
type Backend struct {
	mu        sync.Mutex // guards everything below; nothing blocks under it
	resources map[string]*resource
}

type resource struct {
	mark    fencing.Mark
	base    int64 // highest version of a deleted record
	records map[string]storage.Record
}

var _ storage.Backend = (*Backend)(nil)

// New returns an empty backend.
func New() *Backend { return &Backend{resources: map[string]*resource{}} }

// mark returns a resource's mark. Callers hold b.mu.
func (b *Backend) mark(name string) fencing.Mark {
	if r, ok := b.resources[name]; ok {
		return r.mark
	}
	return fencing.Absent(0)
}

// resource returns a resource to be written to. Callers hold b.mu.
func (b *Backend) resource(name string) *resource {
	r, ok := b.resources[name]
	if !ok {
		r = &resource{mark: fencing.Absent(0), records: map[string]storage.Record{}}
		b.resources[name] = r
	}
	return r
}

// change replaces a resource's mark.
func (b *Backend) change(ctx context.Context, name string, op func(fencing.Mark) (fencing.Mark, error)) error {
	if err := ctx.Err(); err != nil {
		return fencing.AsFailed(err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	before := b.mark(name)
	after, err := op(before)
	if err == nil && after != before {
		b.resource(name).mark = after
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
	return b.mark(name), nil
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
		Marks:   map[string]fencing.Mark{},
		Bases:   map[string]int64{},
		Records: map[storage.RecordID]storage.Record{},
	}
	for _, t := range c.Tokens {
		v.Marks[t.Resource] = b.mark(t.Resource)
		if r, ok := b.resources[t.Resource]; ok {
			v.Bases[t.Resource] = r.base
		}
	}
	for _, op := range c.Ops {
		if r, ok := b.resources[op.Resource]; ok {
			if rec, ok := r.records[op.Key]; ok {
				v.Records[op.ID()] = rec
			}
		}
	}
	res, ch, err := storage.Evaluate(c, v)
	if err != nil {
		return storage.Result{}, err
	}
	for _, rec := range ch.Put {
		rec.Value = bytes.Clone(rec.Value)
		b.resource(rec.Resource).records[rec.Key] = rec
	}
	for _, id := range ch.Deleted {
		delete(b.resource(id.Resource).records, id.Key)
	}
	for name, base := range ch.Bases {
		b.resource(name).base = base
	}
	return res, nil
}

// Get implements storage.Backend.
func (b *Backend) Get(ctx context.Context, name, key string) (storage.Record, error) {
	if err := ctx.Err(); err != nil {
		return storage.Record{}, fencing.AsFailed(err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.get(name, key)
}

func (b *Backend) get(name, key string) (storage.Record, error) {
	if r, ok := b.resources[name]; ok {
		if rec, ok := r.records[key]; ok {
			rec.Value = bytes.Clone(rec.Value)
			return rec, nil
		}
	}
	return storage.Record{}, storage.ErrNotFound
}

// GetFenced implements storage.Backend.
func (b *Backend) GetFenced(ctx context.Context, t fencing.Token, key string) (storage.Record, error) {
	if err := ctx.Err(); err != nil {
		return storage.Record{}, fencing.AsFailed(err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.mark(t.Resource).Current(t); err != nil {
		return storage.Record{}, err
	}
	return b.get(t.Resource, key)
}

// List implements storage.Backend.
func (b *Backend) List(ctx context.Context, name, prefix, after string, limit int) ([]storage.Record, error) {
	if err := ctx.Err(); err != nil {
		return nil, fencing.AsFailed(err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	r, ok := b.resources[name]
	if !ok {
		return nil, nil
	}
	var list []storage.Record
	for _, key := range slices.Sorted(maps.Keys(r.records)) {
		if strings.HasPrefix(key, prefix) && key > after && len(list) < limit {
			rec := r.records[key]
			rec.Value = bytes.Clone(rec.Value)
			list = append(list, rec)
		}
	}
	return list, nil
}
