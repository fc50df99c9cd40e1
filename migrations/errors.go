package migrations

import (
	"fmt"
	"strings"

	"github.com/fencegate/fencegate/internal/sqlitefile"
)

// ErrInUse matches the error for a SQLite file that another process has open.
var ErrInUse = sqlitefile.ErrInUse

// UnavailableError says that the database server does not answer. Try again later.
type UnavailableError struct{ Err error }

// Error implements error.
func (e *UnavailableError) Error() string {
	return "the database server does not answer: " + e.Err.Error()
}

// Unwrap returns what the driver said.
func (e *UnavailableError) Unwrap() error { return e.Err }

// DirtyError says that a process died within a step, and that what the database has does
// not show whether the step took effect: somebody has changed it by hand. Nothing is done
// until somebody has looked.
type DirtyError struct {
	Version uint // where the step led to: up from the version below, or down from the one above
}

// Error implements error.
func (e *DirtyError) Error() string {
	return fmt.Sprintf("a migration to version %d was killed on its way (up from %d, or down from %d), "+
		"and the version in fencegate's table meta is none of these. "+
		"A step is one transaction, so it is done as a whole or not at all: "+
		"compare the database with the SQL of the step (fencegate migrate show), "+
		"then write down the version that it really has (fencegate migrate force VERSION)",
		e.Version, max(e.Version, 1)-1, e.Version+1)
}

// NewerError says that a newer program has migrated the database.
type NewerError struct{ Version, Latest uint }

// Error implements error.
func (e *NewerError) Error() string {
	return fmt.Sprintf("the database is at version %d, this program knows only %d: use the newer program", e.Version, e.Latest)
}

// DestroysError says that a step down would destroy data. Nothing was changed.
type DestroysError struct{ Steps []Migration }

// Error implements error.
func (e *DestroysError) Error() string {
	var what []string
	for _, m := range e.Steps {
		what = append(what, m.Name+" destroys "+m.Destroys)
	}
	return "nothing was changed: the step down would destroy data for good (" + strings.Join(what, "; ") + "), and that was not asked for"
}
