package pgstore

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/pgtx"
	"github.com/fencegate/fencegate/storage"
)

// Apply implements storage.Backend. Each commit is a transaction of its own, one after the
// other.
func (b *Backend) Apply(ctx context.Context, batch []storage.Commit) []storage.Outcome {
	out := make([]storage.Outcome, len(batch))
	for i, c := range batch {
		out[i].Result, out[i].Err = b.apply(ctx, c)
	}
	return out
}

// apply tries a commit again as long as it surely did not happen for no reason of its own.
func (b *Backend) apply(ctx context.Context, c storage.Commit) (storage.Result, error) {
	for n := 1; ; n++ {
		res, err := b.attempt(ctx, c)
		if n == attempts || !again(err) || !pause(ctx, n) {
			return res, err
		}
	}
}

// pause waits a little, more the more often it was tried; false if the context ends first.
func pause(ctx context.Context, n int) bool {
	return pgtx.Pause(ctx, time.Duration(1+rand.IntN(4*n))*time.Millisecond)
}

func (b *Backend) attempt(ctx context.Context, c storage.Commit) (storage.Result, error) {
	conn, err := b.pool.Acquire(ctx)
	if err != nil {
		return storage.Result{}, fencing.AsFailed(err)
	}
	defer conn.Release()
	defer pgtx.Rollback(ctx, conn)
	v, err := b.view(ctx, conn, c)
	if err != nil {
		return storage.Result{}, err
	}
	res, ch, err := storage.Evaluate(c, v)
	if err != nil {
		return storage.Result{}, err
	}
	if err := write(ctx, conn, ch); err != nil {
		return storage.Result{}, err
	}
	return res, nil
}

// view begins the transaction, locks the marks and reads what the commit is judged by. The
// records are read by a statement behind the one that locks: its snapshot is younger than the
// wait.
func (b *Backend) view(ctx context.Context, conn *pgxpool.Conn, c storage.Commit) (storage.View, error) {
	v := storage.View{Marks: map[string]fencing.Mark{}, Records: map[storage.RecordID]storage.Record{}}
	seen := map[storage.RecordID]bool{}
	var resources, keys []string
	for _, op := range c.Ops {
		if id := op.ID(); !seen[id] {
			seen[id] = true
			resources, keys = append(resources, id.Resource), append(keys, id.Key)
		}
	}
	_, bases, err := b.enter(ctx, conn, c.Tokens,
		func(batch *pgx.Batch) { batch.Queue(recordsSQL, resources, keys) },
		func(br pgx.BatchResults) error {
			rows, err := br.Query()
			if err != nil {
				return err
			}
			list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[storage.Record])
			for _, rec := range list {
				v.Records[storage.RecordID{Resource: rec.Resource, Key: rec.Key}] = rec
			}
			return err
		})
	if err != nil {
		return v, err
	}
	v.Bases = bases
	for _, t := range c.Tokens {
		v.Marks[t.Resource] = fencing.Mark{Number: t.Number, Grant: t.Grant} // as the lock found it
	}
	return v, nil
}

// write sends the changes and COMMIT in one round trip.
func write(ctx context.Context, conn *pgxpool.Conn, ch storage.Changes) error {
	batch := &pgx.Batch{}
	if len(ch.Put) > 0 {
		var resources, keys []string
		var values [][]byte
		var versions []int64
		for _, rec := range ch.Put {
			if rec.Value == nil {
				rec.Value = []byte{} // nil would be sent as NULL
			}
			resources, keys = append(resources, rec.Resource), append(keys, rec.Key)
			values, versions = append(values, rec.Value), append(versions, rec.Version)
		}
		batch.Queue(putSQL, resources, keys, values, versions)
	}
	if len(ch.Deleted) > 0 {
		var resources, keys []string
		for _, id := range ch.Deleted {
			resources, keys = append(resources, id.Resource), append(keys, id.Key)
		}
		batch.Queue(deleteSQL, resources, keys)
	}
	if len(ch.Bases) > 0 {
		var resources []string
		var bases []int64
		for resource, base := range ch.Bases {
			resources, bases = append(resources, resource), append(bases, base)
		}
		batch.Queue(basesSQL, resources, bases)
	}
	writes := batch.Len()
	batch.Queue("commit")
	if err := ctx.Err(); err != nil {
		return fencing.AsFailed(err)
	}
	pgtx.Forget(conn.Conn())
	br := conn.SendBatch(ctx, batch)
	defer br.Close()
	for range writes {
		if _, err := br.Exec(); err != nil {
			return pgtx.Before(err, true)
		}
	}
	tag, err := br.Exec()
	return pgtx.Committed(conn.Conn(), tag, err)
}
