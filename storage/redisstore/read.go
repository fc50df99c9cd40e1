package redisstore

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/redisx"
	"github.com/fencegate/fencegate/storage"
)

// Get implements storage.Backend.
func (b *Backend) Get(ctx context.Context, resource, key string) (storage.Record, error) {
	found, err := b.getAll(ctx, resource, []string{key})
	if err != nil {
		return storage.Record{}, err
	}
	if len(found) == 0 {
		return storage.Record{}, storage.ErrNotFound
	}
	return found[0], nil
}

// getAll returns those of the records that exist.
func (b *Backend) getAll(ctx context.Context, resource string, keys []string) ([]storage.Record, error) {
	call := redisx.Call{Keys: []string{b.records(resource)}, Args: make([]any, len(keys))}
	for i, key := range keys {
		call.Args[i] = key
	}
	reply, err := b.sender.Run(ctx, get, call)
	if err != nil {
		return nil, err
	}
	if reply[0] != "ok" || len(reply) != 1+len(keys) {
		return nil, strange(reply)
	}
	found := make([]storage.Record, 0, len(keys))
	for i, key := range keys {
		if reply[1+i] == "" {
			continue
		}
		rec, err := parse(resource, key, reply[1+i])
		if err != nil {
			return nil, err
		}
		found = append(found, rec)
	}
	return found, nil
}

// GetFenced implements storage.Backend.
func (b *Backend) GetFenced(ctx context.Context, t fencing.Token, key string) (storage.Record, error) {
	reply, err := b.sender.Run(ctx, getFenced, redisx.Call{
		Keys: []string{b.mark(t.Resource), b.records(t.Resource)},
		Args: []any{decimal(t.Number), t.Grant, key},
	})
	if err != nil {
		return storage.Record{}, err
	}
	if reply[0] != "ok" || len(reply) != 2 {
		return storage.Record{}, stale([]fencing.Token{t}, reply)
	}
	if reply[1] == "" {
		return storage.Record{}, storage.ErrNotFound
	}
	return parse(t.Resource, key, reply[1])
}

// List implements storage.Backend. The keys are read in one step and their records in
// further ones: a record that is deleted meanwhile is left out.
func (b *Backend) List(ctx context.Context, resource, prefix, after string, limit int) ([]storage.Record, error) {
	reply, err := list.Run(ctx, b.client, redisx.Call{Keys: []string{b.records(resource)}, Args: []any{prefix}})
	if err != nil {
		return nil, err
	}
	keys := slices.DeleteFunc(reply[1:], func(key string) bool { return key <= after })
	slices.Sort(keys)
	var records []storage.Record
	for len(keys) > 0 && len(records) < limit {
		part := keys[:min(len(keys), limit-len(records))]
		keys = keys[len(part):]
		found, err := b.getAll(ctx, resource, part)
		if err != nil {
			return nil, err
		}
		records = append(records, found...)
	}
	return records, nil
}

// parse reads a record as it is kept, "<version>:<bytes>".
func parse(resource, key, record string) (storage.Record, error) {
	version, value, ok := strings.Cut(record, ":")
	n, err := strconv.ParseInt(version, 10, 64)
	if !ok || err != nil {
		return storage.Record{}, strange([]string{version})
	}
	return storage.Record{Resource: resource, Key: key, Value: []byte(value), Version: n}, nil
}
