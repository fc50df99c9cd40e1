package pgstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/pgtx"
)

// attempts is how often a commit is tried that a deadlock or a serialization failure ended.
const attempts = 5

// errMoved says that a token was not the mark when the fence looked, and is now: it was
// raised in between. Nothing but another look is right.
var errMoved = errors.New("the mark changed while it was checked")

// enter begins a transaction whose first statement locks the marks, if the tokens are the
// marks, and returns it with the bases of their resources. more queues what is to be read in
// the same round trip, and done reads it. All errors are refused or failed; the
// transaction is then to be rolled back.
func (b *Backend) enter(ctx context.Context, conn *pgxpool.Conn, tokens []fencing.Token,
	more func(*pgx.Batch), done func(pgx.BatchResults) error,
) (pgx.Tx, map[string]int64, error) {
	batch := &pgx.Batch{}
	pgtx.Begin(batch, pgtx.Limits{Idle: b.o.MaxIdle})
	resources, numbers, grants := columns(tokens)
	batch.Queue(lockSQL, resources, numbers, grants)
	if more != nil {
		more(batch)
	}
	br := conn.SendBatch(ctx, batch)
	bases, err := readLocked(br)
	if err == nil && done != nil {
		err = done(br)
	}
	if closing := br.Close(); err == nil {
		err = closing
	}
	if err != nil {
		return nil, nil, pgtx.Before(err, false)
	}
	if len(bases) < len(tokens) {
		return nil, nil, b.explain(ctx, conn, tokens)
	}
	return br.Tx(), bases, nil
}

func readLocked(br pgx.BatchResults) (map[string]int64, error) {
	if err := pgtx.Began(br); err != nil {
		return nil, err
	}
	rows, err := br.Query()
	if err != nil {
		return nil, err
	}
	bases := map[string]int64{}
	var resource string
	var base int64
	_, err = pgx.ForEachRow(rows, []any{&resource, &base}, func() error {
		bases[resource] = base
		return nil
	})
	return bases, err
}

// explain ends a transaction in which a token was not the mark, and says why it was refused,
// by the marks as they are now. errMoved if all tokens are marks by now.
func (b *Backend) explain(ctx context.Context, conn *pgxpool.Conn, tokens []fencing.Token) error {
	resources, _, _ := columns(tokens)
	batch := &pgx.Batch{}
	batch.Queue(marksSQL, resources)
	batch.Queue("rollback")
	br := conn.SendBatch(ctx, batch)
	rows, err := br.Query()
	marks := map[string]fencing.Mark{}
	if err == nil {
		var resource string
		var m fencing.Mark
		_, err = pgx.ForEachRow(rows, []any{&resource, &m.Number, &m.Grant, &m.Retired}, func() error {
			marks[resource] = m
			return nil
		})
	}
	if closing := br.Close(); err == nil {
		err = closing
	}
	if err != nil {
		return fencing.AsFailed(fmt.Errorf("read the marks of refused tokens: %w", pgtx.Scrub(err)))
	}
	for _, t := range tokens {
		if err := marks[t.Resource].Current(t); err != nil {
			return err
		}
	}
	return fencing.AsFailed(errMoved)
}

// again reports whether an attempt that ended with err, before its COMMIT, may be repeated.
func again(err error) bool {
	return fencing.OutcomeOf(err) == fencing.Failed &&
		(errors.Is(err, errMoved) || pgtx.HasCode(err, pgtx.SerializationFailure, pgtx.DeadlockDetected))
}

func columns(tokens []fencing.Token) (resources []string, numbers []int64, grants []string) {
	for _, t := range tokens {
		resources = append(resources, t.Resource)
		numbers = append(numbers, t.Number)
		grants = append(grants, t.Grant)
	}
	return resources, numbers, grants
}
