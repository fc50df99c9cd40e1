package pgstore

import (
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fencegate/fencegate/fencing"
)

var errUnconfirmed = errors.New("the commit was not confirmed by a synchronous standby")

// before judges an error that came for a statement in front of COMMIT. sent says that COMMIT
// was in the same batch: then only an answer of the server shows that it was not reached.
func before(err error, sent bool) error {
	if err == nil {
		return nil
	}
	err = scrub(err)
	if _, answered := errors.AsType[*pgconn.PgError](err); answered || !sent || unsent(err) {
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
	if errors.Is(err, pgx.ErrTxCommitRollback) || unsent(err) {
		return fencing.AsFailed(err)
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok && (e.SeverityUnlocalized == "ERROR" || e.Code == idleInTransaction) {
		return fencing.AsFailed(err)
	}
	// No answer; or FATAL, which can come after the commit was written.
	return fencing.AsUnknown(err)
}

const (
	serializationFailure = "40001"
	deadlockDetected     = "40P01"
	lockNotAvailable     = "55P03"
	idleInTransaction    = "25P03" // ends the session before it reads a COMMIT
)

// unsent reports whether COMMIT has surely not been sent with its batch: a statement in it could
// not be prepared. pgconn.SafeToRetry would be wrong here: where a connection is lost after
// COMMIT was sent, pgx can answer "conn closed", which it calls safe to retry.
func unsent(err error) bool {
	_, unprepared := errors.AsType[pgx.ErrPreprocessingBatch](err)
	return unprepared
}

func hasCode(err error, codes ...string) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return false
	}
	for _, c := range codes {
		if e.Code == c {
			return true
		}
	}
	return false
}

// scrub empties what a server adds to an error: the detail of a failed constraint shows the
// row, with its grant id.
func scrub(err error) error {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		e.Detail, e.Where, e.InternalQuery = "", "", ""
	}
	return err
}
