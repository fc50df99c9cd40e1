package sqlitestore

import (
	"context"
	"database/sql"
	"errors"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/storage"
)

// Reads do not wait for the writer. Each is one statement, so one snapshot, of all that
// was committed when it began.

// Mark implements fencing.Fence.
func (b *Backend) Mark(ctx context.Context, resource string) (fencing.Mark, error) {
	end, err := b.begin()
	if err != nil {
		return fencing.Mark{}, err
	}
	defer end()
	var m fencing.Mark
	var base int64
	if err := b.read.mark.QueryRowContext(ctx, resource, b.incarnation).Scan(&m.Number, &m.Grant, &m.Retired, &base); err != nil {
		return fencing.Mark{}, fencing.AsFailed(err)
	}
	return tidy(m), nil
}

// Get implements storage.Backend.
func (b *Backend) Get(ctx context.Context, resource, key string) (storage.Record, error) {
	end, err := b.begin()
	if err != nil {
		return storage.Record{}, err
	}
	defer end()
	rec := storage.Record{Resource: resource, Key: key}
	err = b.read.get.QueryRowContext(ctx, resource, key).Scan(&rec.Value, &rec.Version)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return storage.Record{}, storage.ErrNotFound
	case err != nil:
		return storage.Record{}, fencing.AsFailed(err)
	}
	return rec, nil
}

// GetFenced implements storage.Backend.
func (b *Backend) GetFenced(ctx context.Context, t fencing.Token, key string) (storage.Record, error) {
	end, err := b.begin()
	if err != nil {
		return storage.Record{}, err
	}
	defer end()
	var m fencing.Mark
	rec := storage.Record{Resource: t.Resource, Key: key}
	err = b.read.getFenced.QueryRowContext(ctx, t.Resource, b.incarnation, key).
		Scan(&m.Number, &m.Grant, &m.Retired, &rec.Value, &rec.Version)
	if err != nil {
		return storage.Record{}, fencing.AsFailed(err)
	}
	if err := tidy(m).Current(t); err != nil {
		return storage.Record{}, err
	}
	if rec.Version == 0 {
		return storage.Record{}, storage.ErrNotFound
	}
	return rec, nil
}

// afterKeys sorts after every character of a key.
const afterKeys = "\x7f"

// List implements storage.Backend.
func (b *Backend) List(ctx context.Context, resource, prefix, after string, limit int) ([]storage.Record, error) {
	end, err := b.begin()
	if err != nil {
		return nil, err
	}
	defer end()
	rows, err := b.read.list.QueryContext(ctx, resource, after, prefix, prefix+afterKeys, limit)
	if err != nil {
		return nil, fencing.AsFailed(err)
	}
	defer rows.Close()
	var list []storage.Record
	for rows.Next() {
		rec := storage.Record{Resource: resource}
		if err := rows.Scan(&rec.Key, &rec.Value, &rec.Version); err != nil {
			return nil, fencing.AsFailed(err)
		}
		list = append(list, rec)
	}
	return list, fencing.AsFailed(rows.Err())
}
