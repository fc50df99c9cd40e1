package pgtx

import (
	"errors"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fencegate/fencegate/fencing"
)

var errUnconfirmed = errors.New("the commit was not confirmed by a synchronous standby")

// Before judges an error that came for a statement in front of COMMIT. sent says that COMMIT
// was in the same batch: then only an answer that the statement itself got shows that COMMIT
// was not reached.
func Before(err error, sent bool) error {
	if err == nil {
		return nil
	}
	err = Scrub(err)
	if !sent || unsent(err) || refused(err) {
		return fencing.AsFailed(err)
	}
	return fencing.AsUnknown(err)
}

// Committed judges the answer to COMMIT.
func Committed(conn *pgx.Conn, tag pgconn.CommandTag, err error) error {
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
	err = Scrub(err)
	if errors.Is(err, pgx.ErrTxCommitRollback) || unsent(err) || refused(err) {
		return fencing.AsFailed(err)
	}
	return fencing.AsUnknown(err)
}

// refused reports whether err says, in the server's own words, that what was sent had no
// effect. FATAL and PANIC end a session, and can come after the commit was written; a
// pooler says FATAL in the server's place when it has lost the server, wherever that was,
// and class 08 is about connections, whoever says it.
func refused(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (e.SeverityUnlocalized == "ERROR" && !strings.HasPrefix(e.Code, "08") || e.Code == idleInTransaction)
}

// The codes that the backends ask for.
const (
	SerializationFailure = "40001"
	DeadlockDetected     = "40P01"
	LockNotAvailable     = "55P03"
)

const idleInTransaction = "25P03" // ends the session before it reads a COMMIT

// unsent reports whether COMMIT has surely not been sent with its batch: a statement in it could
// not be prepared. pgconn.SafeToRetry would be wrong here: where a connection is lost after
// COMMIT was sent, pgx can answer "conn closed", which it calls safe to retry.
func unsent(err error) bool {
	_, unprepared := errors.AsType[pgx.ErrPreprocessingBatch](err)
	return unprepared
}

// HasCode reports whether err is an answer of the server with one of the codes.
func HasCode(err error, codes ...string) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && slices.Contains(codes, e.Code)
}

// Scrub empties what a server adds to an error: the detail of a failed constraint shows the
// row, with its grant id.
func Scrub(err error) error {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		e.Detail, e.Where, e.InternalQuery = "", "", ""
	}
	return err
}
