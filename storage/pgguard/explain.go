package pgguard

import (
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/pgtx"
)

// The SQLSTATE codes of the schema, in class ZF, which is nobody else's.
const (
	CodeSuperseded    = "ZF101" // a newer token was raised
	CodeRetired       = "ZF102" // released, evicted, or the server was restarted
	CodeDuplicate     = "ZF103" // another grant has the same number
	CodeUngranted     = "ZF104" // the number was never raised
	CodeGrantRequired = "ZF105" // a plain number
	CodeNoToken       = "ZF201" // a row is written, and the transaction has no token of its resource
	CodeShape         = "ZF202" // no resource and token, by their shape
	CodeNoResource    = "ZF203" // a row has no resource: its column is null, or fits no name
	CodeTruncate      = "ZF204" // a guarded table is truncated
	CodeChanged       = "ZF205" // the column or the table is no longer what was guarded: Protect it again
)

var reasons = map[string]fencing.Reason{
	CodeSuperseded: fencing.Superseded, CodeRetired: fencing.Retired, CodeDuplicate: fencing.Duplicate,
	CodeUngranted: fencing.Ungranted, CodeGrantRequired: fencing.GrantRequired,
}

// RefusedError says that a guard refused a write that had no token, a TRUNCATE, or every write
// because its table was changed. The transaction can only be rolled back.
type RefusedError struct {
	Code string // CodeNoToken, CodeNoResource, CodeTruncate or CodeChanged
	Err  error  // the driver's error
}

// Error implements error.
func (e *RefusedError) Error() string { return e.Err.Error() }

// Unwrap returns the driver's error.
func (e *RefusedError) Unwrap() error { return e.Err }

// Outcome is fencing.Refused: nothing was written.
func (*RefusedError) Outcome() fencing.Outcome { return fencing.Refused }

// Explain gives an error of a statement, or of COMMIT, what it says of fencing: a
// [*fencing.StaleError] or a [*RefusedError] where enter or a guard refused, failed where the server
// says that the transaction had no effect (serialization failures and deadlocks, after
// which it is to be tried again, and most other errors of statements), unknown where the connection
// was lost, or where the error could be the answer to a COMMIT that was carried out already. Errors
// of other origin and nil are returned as they are.
//
// tokens are those of the transaction, if they are at hand: the StaleError has the one that was
// refused, else one without its grant id. It reads the errors of pgx, and of every driver
// whose errors have the method SQLState; of these it cannot always see whether the error ended the
// session, so that more of them are unknown: no memory, no disk space, and errors of the system.
func Explain(err error, tokens ...fencing.Token) error {
	if err == nil {
		return nil
	}
	if refused := refusal(err, tokens); refused != nil {
		return refused
	}
	if _, pg := errors.AsType[*pgconn.PgError](err); pg {
		return judge(err)
	}
	code, answered := sqlState(err)
	switch {
	case errors.Is(err, pgx.ErrTxCommitRollback):
		return fencing.AsFailed(err)
	case answered && late(err, code):
		return fencing.AsUnknown(err)
	case answered:
		return fencing.AsFailed(err)
	case pgconn.Timeout(err):
		return fencing.AsUnknown(err)
	}
	return err
}

// late reports whether an answer of the server may have followed the commit record, as far as a
// driver that is not pgx shows it.
func late(err error, code string) bool {
	if code == idleInTransaction {
		return false
	}
	for _, class := range []string{"08", "40003", "53", "57P", "58", "F0", "XX"} {
		if strings.HasPrefix(code, class) {
			return true
		}
	}
	var ends interface{ Fatal() bool } // lib/pq; it does not say so of PANIC
	var field interface{ Get(k byte) string }
	return errors.As(err, &ends) && ends.Fatal() || errors.As(err, &field) && slices.Contains([]string{"FATAL", "PANIC"}, field.Get('S'))
}

const idleInTransaction = "25P03" // ends the session before it reads a COMMIT

// refusal returns what a code of class ZF says; nil for any other error.
func refusal(err error, tokens []fencing.Token) error {
	code, _ := sqlState(err)
	switch {
	case reasons[code] != "":
		return stale(err, reasons[code], tokens)
	case code == CodeShape:
		return &fencing.InvalidError{What: "token", Allowed: "the name of a resource and its token"}
	case strings.HasPrefix(code, "ZF2"):
		return &RefusedError{Code: code, Err: err}
	}
	return nil
}

// judge is pgtx.Before for statements of others, whose details are left as they are.
func judge(err error) error {
	e, _ := errors.AsType[*pgconn.PgError](err)
	kept := *e
	err = pgtx.Before(err, true)
	*e = kept
	return err
}

func sqlState(err error) (string, bool) {
	var e interface{ SQLState() string }
	if !errors.As(err, &e) {
		return "", false
	}
	return e.SQLState(), true
}

// The message is this schema's own, whatever driver brought it.
var staleText = regexp.MustCompile(`token (\d+) of (\S+) refused: [a-z-]+ \(the mark is (\d+)\)`)

func stale(err error, reason fencing.Reason, tokens []fencing.Token) error {
	e := &fencing.StaleError{Reason: reason}
	m := staleText.FindStringSubmatch(err.Error())
	if m == nil {
		return e
	}
	e.Token.Resource = m[2]
	e.Token.Number, _ = strconv.ParseInt(m[1], 10, 64)
	e.Highest, _ = strconv.ParseInt(m[3], 10, 64)
	for _, t := range tokens {
		if t.Resource == e.Token.Resource && t.Number == e.Token.Number {
			e.Token = t
		}
	}
	return e
}
