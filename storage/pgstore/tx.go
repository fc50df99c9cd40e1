package pgstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/fencing"
)

// Always said, never left to a default: at another level, the statement behind the lock would
// read what was there before the wait.
var readCommitted = pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite}

// cleanupTimeout bounds a rollback after the caller's context may have ended. A server that
// does not answer loses the connection, which ends the transaction as well.
const cleanupTimeout = 2 * time.Second

// attempts is how often a commit is tried that a deadlock or a serialization failure ended.
const attempts = 5

// errMoved says that a token was not the mark when the fence looked, and is now: it was
// raised in between. Nothing but another look is right.
var errMoved = errors.New("the mark changed while it was checked")

// call runs one statement in a transaction of its own, in one round trip. wait is the longest
// wait for one lock. read is called with the rows, which it need not close.
func (b *Backend) call(ctx context.Context, wait time.Duration, read func(pgx.Rows) error, sql string, args ...any) error {
	conn, err := b.pool.Acquire(ctx)
	if err != nil {
		return fencing.AsFailed(err)
	}
	defer conn.Release()
	if err := ctx.Err(); err != nil { // from here on, an error may have come after COMMIT
		return fencing.AsFailed(err)
	}
	batch := &pgx.Batch{}
	batch.BeginTx(readCommitted)
	batch.Queue(settingsSQL, b.maxIdle, milliseconds(wait))
	batch.Queue(sql, args...)
	batch.Queue("commit")
	unconfirmed(conn.Conn())
	br := conn.SendBatch(ctx, batch)
	defer rollback(ctx, conn)
	defer br.Close()
	for range 2 { // begin and settings
		if _, err := br.Exec(); err != nil {
			return before(err, true)
		}
	}
	rows, err := br.Query()
	if err == nil {
		err = read(rows)
		rows.Close()
		if rows.Err() != nil {
			err = rows.Err()
		}
	}
	if err != nil {
		return before(err, true)
	}
	tag, err := br.Exec()
	return committed(conn.Conn(), tag, err)
}

// rollback ends a transaction that is still open.
func rollback(ctx context.Context, conn *pgxpool.Conn) {
	c := conn.Conn()
	if c.IsClosed() || c.PgConn().TxStatus() == 'I' {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	// Where it fails, the pool closes the connection.
	_, _ = c.Exec(ctx, "rollback")
}

// enter begins a transaction whose first statement locks the marks, if the tokens are the
// marks, and returns it with the bases of their resources. more queues what is to be read in
// the same round trip, and done reads it. All errors are refused or failed; the
// transaction is then to be rolled back.
func (b *Backend) enter(ctx context.Context, conn *pgxpool.Conn, tokens []fencing.Token,
	more func(*pgx.Batch), done func(pgx.BatchResults) error,
) (pgx.Tx, map[string]int64, error) {
	batch := &pgx.Batch{}
	batch.BeginTx(readCommitted)
	batch.Queue(settingsSQL, b.maxIdle, "")
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
		return nil, nil, before(err, false)
	}
	if len(bases) < len(tokens) {
		return nil, nil, b.explain(ctx, conn, tokens)
	}
	return br.Tx(), bases, nil
}

func readLocked(br pgx.BatchResults) (map[string]int64, error) {
	for range 2 { // begin and settings
		if _, err := br.Exec(); err != nil {
			return nil, err
		}
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
		return fencing.AsFailed(fmt.Errorf("read the marks of refused tokens: %w", scrub(err)))
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
		(errors.Is(err, errMoved) || hasCode(err, serializationFailure, deadlockDetected))
}

func columns(tokens []fencing.Token) (resources []string, numbers []int64, grants []string) {
	for _, t := range tokens {
		resources = append(resources, t.Resource)
		numbers = append(numbers, t.Number)
		grants = append(grants, t.Grant)
	}
	return resources, numbers, grants
}
