package pglock

import (
	"context"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/pgtx"
	"github.com/fencegate/fencegate/locking"
)

const queryCanceled = "57014" // a statement_timeout, among others

// waitIsOver reports whether a statement that waits for a row was ended by one of the bounds
// that were set for it. It had no effect then.
func waitIsOver(err error) bool { return pgtx.HasCode(err, pgtx.LockNotAvailable, queryCanceled) }

// patience queues what lets the rest of a transaction last as long as it has to, whatever its
// role has as a default: bound is for each statement, zero for none.
func patience(batch *pgx.Batch, bound time.Duration) { batch.Queue(patienceSQL, milliseconds(bound)) }

// wait is call for a function that waits for one row, locking.LookEvery at most. The bound of its
// statements is that of the call: COMMIT is one of them, and may wait for a standby.
func (c caller) wait(ctx context.Context, read func(pgx.Rows) error, sql string, args ...any) error {
	ctx, limit, cancel := pgtx.Deadline(ctx, c.timeout, c.timeout+c.timeout/10)
	defer cancel()
	conn, err := c.pool.Acquire(ctx)
	if err != nil {
		return fencing.AsFailed(err)
	}
	defer conn.Release()
	if err := ctx.Err(); err != nil { // from here on, an error may have come after COMMIT
		return fencing.AsFailed(err)
	}
	batch := &pgx.Batch{}
	pgtx.Begin(batch, pgtx.Limits{Wait: min(limit, locking.LookEvery)})
	patience(batch, limit)
	batch.Queue(sql, args...)
	batch.Queue("commit")
	pgtx.Forget(conn.Conn())
	br := conn.SendBatch(ctx, batch)
	defer pgtx.Rollback(ctx, conn)
	defer br.Close()
	err = pgtx.Began(br)
	if err == nil {
		_, err = br.Exec()
	}
	if err != nil {
		return pgtx.Before(err, true)
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
		return pgtx.Before(err, true)
	}
	tag, err := br.Exec()
	return pgtx.Committed(conn.Conn(), tag, err)
}

// milliseconds writes a duration as the server reads it; what is left of one counts whole.
func milliseconds(d time.Duration) string {
	return strconv.FormatInt(max(0, (d+time.Millisecond-1).Milliseconds()), 10) + "ms"
}
