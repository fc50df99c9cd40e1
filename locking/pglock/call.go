package pglock

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/fencing"
)

var (
	errBusy        = errors.New("another call is at work on the lock")
	errUnconfirmed = errors.New("the commit was not confirmed by a synchronous standby")
)

// Always said, never left to a default: the functions refuse to run at another level.
var readCommitted = pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite}

// cleanupTimeout bounds a rollback after the caller's context may have ended.
const cleanupTimeout = 2 * time.Second

// row is call for a function that returns one row.
func (b *Backend) row(ctx context.Context, dest []any, sql string, args ...any) error {
	return b.call(ctx, func(rows pgx.Rows) error {
		_, err := pgx.ForEachRow(rows, dest, func() error { return nil })
		return err
	}, sql, args...)
}

// call runs one function in a transaction of its own, in one round trip.
func (b *Backend) call(ctx context.Context, read func(pgx.Rows) error, sql string, args ...any) error {
	wait := b.o.Timeout
	if deadline, ok := ctx.Deadline(); ok {
		// The server gives up a little before the context does: its answer says for sure that
		// nothing happened, silence does not.
		left := time.Until(deadline)
		wait = left - min(left/10, 100*time.Millisecond)
	} else {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, wait+wait/10)
		defer cancel()
	}
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
	batch.Queue(settingsSQL, strconv.FormatInt(max(1, wait.Milliseconds()), 10)+"ms")
	batch.Queue(sql, args...)
	batch.Queue("commit")
	unconfirmed(conn.Conn())
	br := conn.SendBatch(ctx, batch)
	defer rollback(ctx, conn)
	defer br.Close()
	for range 2 { // begin and settings
		if _, err := br.Exec(); err != nil {
			return before(err)
		}
	}
	rows, err := br.Query()
	if err == nil {
		err = read(rows)
	}
	if err != nil {
		return before(err)
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

// before judges an error that came for a statement in front of COMMIT, which is in the same
// batch: only an answer of the server shows that it was not reached.
func before(err error) error {
	err = scrub(err)
	if _, answered := errors.AsType[*pgconn.PgError](err); answered || unsent(err) {
		return fencing.AsFailed(err)
	}
	return fencing.AsUnknown(err)
}

// committed judges the answer to COMMIT.
func committed(conn *pgx.Conn, tag pgconn.CommandTag, err error) error {
	late := unconfirmed(conn)
	if err == nil {
		switch {
		case tag.String() == "ROLLBACK":
			return fencing.AsFailed(pgx.ErrTxCommitRollback)
		case late:
			return fencing.AsUnknown(errUnconfirmed)
		}
		return nil
	}
	err = scrub(err)
	if unsent(err) {
		return fencing.AsFailed(err)
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok && e.SeverityUnlocalized == "ERROR" {
		return fencing.AsFailed(err)
	}
	// No answer; or FATAL, which can come after the commit was written.
	return fencing.AsUnknown(err)
}

// unsent reports whether COMMIT has surely not been sent with its batch: a statement in it could
// not be prepared. pgconn.SafeToRetry would be wrong here: where a connection is lost after
// COMMIT was sent, pgx can answer "conn closed", which it calls safe to retry.
func unsent(err error) bool {
	_, unprepared := errors.AsType[pgx.ErrPreprocessingBatch](err)
	return unprepared
}

// scrub empties what a server adds to an error: the detail of a failed constraint shows the
// row, with its grant id.
func scrub(err error) error {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		e.Detail, e.Where, e.InternalQuery = "", "", ""
	}
	return err
}

// noteUnconfirmed is noted on a connection whose COMMIT came back without its standby.
const noteUnconfirmed = "fencegate/pglock: commit without its standby"

// Configure prepares a pool's configuration for servers with synchronous standbys. When the
// wait for a standby is cancelled, the server answers COMMIT with success and a warning;
// this hook notes the warning, and the outcome becomes unknown instead of a grant that a
// failover forgets. Hooks that are set already go on working, that of pgstore.Configure too.
func Configure(c *pgxpool.Config) {
	notice := c.ConnConfig.OnNotice
	c.ConnConfig.OnNotice = func(conn *pgconn.PgConn, n *pgconn.Notice) {
		// By the routine: the text is translated, and the code is that of any warning.
		if n.Routine == "SyncRepWaitForLSN" {
			conn.CustomData()[noteUnconfirmed] = true
		}
		if notice != nil {
			notice(conn, n)
		}
	}
}

// unconfirmed reports whether the last COMMIT came back without its standby, once.
func unconfirmed(conn *pgx.Conn) bool {
	data := conn.PgConn().CustomData()
	noted := data[noteUnconfirmed] != nil
	delete(data, noteUnconfirmed)
	return noted
}
