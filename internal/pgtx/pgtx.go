// Package pgtx is what the Postgres backends share: which pools and databases they accept,
// transactions whose end is known or said to be unknown, and which outcome an error has.
//
// # Guarantees
//
//   - A transaction that [Begin] queued runs at READ COMMITTED and with synchronous_commit
//     on (or remote_apply, which is more), whatever the session has as a default.
//   - An error is failed only if its COMMIT surely had no effect, also when it is a pooler
//     that answers in the server's place. See [Before], [Committed].
//   - No error shows the values of a row.
//
// # What is not guaranteed
//
// A COMMIT that came back without its synchronous standby is told from one that did not only
// on the connections of a pool that [Configure] prepared.
package pgtx

import (
	"context"
	_ "embed" // the statements
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/fencing"
)

var (
	//go:embed sql/settings.sql
	settingsSQL string
	//go:embed sql/server.sql
	serverSQL string
	//go:embed sql/version.sql
	versionSQL string
	//go:embed sql/durability.sql
	durabilitySQL string
	//go:embed sql/logged.sql
	loggedSQL string
)

// Always said, never left to a default: at another level, what stands behind a lock would
// read what was there before the wait, and the functions of the schema refuse to run.
var readCommitted = pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite}

// cleanupTimeout bounds a rollback after the caller's context may have ended. A server that
// does not answer loses the connection, which ends the transaction as well.
const cleanupTimeout = 2 * time.Second

// Limits bound a transaction. Zero leaves what the session has.
type Limits struct {
	Idle time.Duration // between two statements; then the server ends the session
	Wait time.Duration // for one lock
}

// Begin queues the beginning of a transaction. [Began] reads the answers to it.
func Begin(batch *pgx.Batch, l Limits) {
	batch.BeginTx(readCommitted)
	batch.Queue(settingsSQL, milliseconds(l.Idle), milliseconds(l.Wait))
}

// Began reads the answers to what [Begin] queued.
func Began(br pgx.BatchResults) error {
	for range 2 { // begin and settings
		if _, err := br.Exec(); err != nil {
			return err
		}
	}
	return nil
}

// Call runs one statement in a transaction of its own, in one round trip. read gets its
// rows, which it need not close. The error has an outcome.
func Call(ctx context.Context, pool *pgxpool.Pool, l Limits, read func(pgx.Rows) error, sql string, args ...any) error {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return fencing.AsFailed(err)
	}
	defer conn.Release()
	if err := ctx.Err(); err != nil { // from here on, an error may have come after COMMIT
		return fencing.AsFailed(err)
	}
	batch := &pgx.Batch{}
	Begin(batch, l)
	batch.Queue(sql, args...)
	batch.Queue("commit")
	Forget(conn.Conn())
	br := conn.SendBatch(ctx, batch)
	defer Rollback(ctx, conn)
	defer br.Close()
	if err := Began(br); err != nil {
		return Before(err, true)
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
		return Before(err, true)
	}
	tag, err := br.Exec()
	return Committed(conn.Conn(), tag, err)
}

// One runs a statement that is a transaction of its own, and scans its one row, in one round trip.
// found says whether there was one. The error has an outcome: where the answer is lost, or came
// back before a synchronous standby had it, it is unknown.
func One(ctx context.Context, conn *pgxpool.Conn, dest []any, sql string, args ...any) (found bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, fencing.AsFailed(err)
	}
	Forget(conn.Conn())
	rows, err := conn.Query(ctx, sql, args...)
	if err == nil {
		if found = rows.Next(); found {
			err = rows.Scan(dest...)
		}
		rows.Close() // reads to the end: an error of the commit comes behind the row
		if rows.Err() != nil {
			err = rows.Err()
		}
	}
	return found, Committed(conn.Conn(), rows.CommandTag(), err)
}

// Row makes what [Call] reads one row with.
func Row(dest ...any) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		_, err := pgx.ForEachRow(rows, dest, func() error { return nil })
		return err
	}
}

// Rollback ends a transaction that is still open.
func Rollback(ctx context.Context, conn *pgxpool.Conn) {
	c := conn.Conn()
	if c.IsClosed() || c.PgConn().TxStatus() == 'I' {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	// Where it fails, the pool closes the connection.
	_, _ = c.Exec(ctx, "rollback")
}

// Deadline returns how long the server may wait for a lock. With a deadline, the server gives
// up a little before the context does: its answer says for sure that nothing happened,
// silence does not. A context without one gets most as its end, and the wait is otherwise.
func Deadline(ctx context.Context, otherwise, most time.Duration) (context.Context, time.Duration, context.CancelFunc) {
	if deadline, ok := ctx.Deadline(); ok {
		left := time.Until(deadline)
		// Zero would be no limit; a context that is over is found later.
		return ctx, max(time.Millisecond, left-min(left/10, 500*time.Millisecond)), func() {}
	}
	ctx, cancel := context.WithTimeout(ctx, most)
	return ctx, otherwise, cancel
}

// Pause waits; false if the context ends first.
func Pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// milliseconds writes a limit as the server reads it; what is left of one counts whole.
func milliseconds(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return strconv.FormatInt(max(1, d.Milliseconds()), 10) + "ms"
}
