package pgstore

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/pgtx"
	"github.com/fencegate/fencegate/storage"
)

// Get implements storage.Backend.
func (b *Backend) Get(ctx context.Context, resource, key string) (storage.Record, error) {
	rec := storage.Record{Resource: resource, Key: key}
	err := b.pool.QueryRow(ctx, getSQL, resource, key).Scan(&rec.Value, &rec.Version)
	if errors.Is(err, pgx.ErrNoRows) {
		return storage.Record{}, storage.ErrNotFound
	}
	if err != nil {
		return storage.Record{}, fencing.AsFailed(err)
	}
	return rec, nil
}

// GetFenced implements storage.Backend. It locks nothing: mark and record come from one
// snapshot, so the record is the value at one moment at which t was the mark. All writes of
// older tokens had ended by then, for the raise of t had waited for them; and a write of t
// that was acknowledged before is in the snapshot. A lock would add nothing but a wait, and
// the answer can be overtaken on its way in either case.
func (b *Backend) GetFenced(ctx context.Context, t fencing.Token, key string) (storage.Record, error) {
	rec := storage.Record{Resource: t.Resource, Key: key}
	var m fencing.Mark
	err := b.pool.QueryRow(ctx, getFencedSQL, t.Resource, t.Number, t.Grant, key).
		Scan(&m.Number, &m.Grant, &m.Retired, &rec.Value, &rec.Version)
	if err != nil {
		return storage.Record{}, fencing.AsFailed(pgtx.Scrub(err))
	}
	if err := m.Current(t); err != nil {
		return storage.Record{}, err
	}
	if rec.Version == 0 {
		return storage.Record{}, storage.ErrNotFound
	}
	return rec, nil
}

// List implements storage.Backend.
func (b *Backend) List(ctx context.Context, resource, prefix, after string, limit int) ([]storage.Record, error) {
	rows, err := b.pool.Query(ctx, listSQL, resource, prefix, after, limit)
	if err != nil {
		return nil, fencing.AsFailed(err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (storage.Record, error) {
		rec := storage.Record{Resource: resource}
		err := row.Scan(&rec.Key, &rec.Value, &rec.Version)
		return rec, err
	})
	if err != nil {
		return nil, fencing.AsFailed(err)
	}
	return list, nil
}
