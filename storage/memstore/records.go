package memstore

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/storage"
)

// write does what a commit that was accepted changes. Names are copied when they are new, for they
// may be pieces of something large; an assignment to a map would replace the copy. Callers hold b.mu.
func (b *Backend) write(ch storage.Changes) {
	for _, rec := range ch.Put {
		rec.Resource, rec.Value = b.marks.own(rec.Resource), bytes.Clone(rec.Value)
		records := b.records[rec.Resource]
		if records == nil {
			records = map[string]storage.Record{}
			b.records[rec.Resource] = records
		}
		if known, ok := records[rec.Key]; ok {
			rec.Key = known.Key
		} else {
			rec.Key = strings.Clone(rec.Key)
		}
		records[rec.Key] = rec
	}
	for _, id := range ch.Deleted {
		records := b.records[id.Resource]
		delete(records, id.Key)
		if len(records) == 0 {
			delete(b.records, id.Resource)
		}
	}
	for resource, base := range ch.Bases {
		b.bases[b.marks.own(resource)] = base
	}
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
	rec, ok := b.records[name][key]
	if !ok {
		return storage.Record{}, storage.ErrNotFound
	}
	rec.Value = bytes.Clone(rec.Value)
	return rec, nil
}

// GetFenced implements storage.Backend.
func (b *Backend) GetFenced(ctx context.Context, t fencing.Token, key string) (storage.Record, error) {
	if err := ctx.Err(); err != nil {
		return storage.Record{}, fencing.AsFailed(err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.marks.get(t.Resource).Current(t); err != nil {
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
	records := b.records[name]
	var list []storage.Record
	for _, key := range slices.Sorted(maps.Keys(records)) {
		if strings.HasPrefix(key, prefix) && key > after && len(list) < limit {
			rec := records[key]
			rec.Value = bytes.Clone(rec.Value)
			list = append(list, rec)
		}
	}
	return list, nil
}
