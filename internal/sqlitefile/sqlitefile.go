// Package sqlitefile opens SQLite database files the way fencegate needs them, and keeps
// a second process out of them.
package sqlitefile

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"
	"modernc.org/sqlite"

	"github.com/fencegate/fencegate/fencing"
)

// ErrInUse matches the error of [Lock] when somebody else has the file.
var ErrInUse = errors.New("the database file is in use")

// Mode is how [Open] opens a file.
type Mode int

// The modes.
const (
	Write Mode = iota // transactions take the write lock when they begin
	Read              // never writes, creates nothing
)

// Resolve checks path and returns its one name: absolute, symbolic links followed, so
// that one file has one lock. The file need not exist, its folder must.
func Resolve(path string) (string, error) {
	if path == "" || path == ":memory:" || strings.HasPrefix(path, "file:") {
		return "", &fencing.InvalidError{What: "database file", Got: fmt.Sprintf("%q", path), Allowed: "the path of a file"}
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	if real, err := filepath.EvalSymlinks(abs); err == nil {
		return real, nil
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(abs))
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, reason(err))
	}
	return filepath.Join(dir, filepath.Base(abs)), nil
}

// Lock takes the lock of the file at a resolved path, path + ".lock", waiting up to wait.
// The lock file stays when the lock is given back: removing it would let a third process
// lock a file that no longer has a name. The error matches [ErrInUse] if another process,
// or this one, has the lock.
func Lock(ctx context.Context, path string, wait time.Duration) (unlock func() error, err error) {
	l := flock.New(path+".lock", flock.SetPermissions(0o600))
	ok, err := l.TryLock() // once, also where wait is 0
	if err == nil && !ok {
		limited, cancel := context.WithTimeout(ctx, wait)
		defer cancel()
		if ok, err = l.TryLockContext(limited, 20*time.Millisecond); limited.Err() != nil {
			err = nil // what ended the wait is told below
		}
	}
	switch {
	case ok:
		return l.Close, nil
	case err != nil:
		return nil, fmt.Errorf("%s: the lock file cannot be opened: %w", path, reason(err))
	case ctx.Err() != nil:
		return nil, fmt.Errorf("%s: %w", path, context.Cause(ctx))
	}
	return nil, fmt.Errorf("%s: %w: another fencegate has it open, and only one may", path, ErrInUse)
}

// Create makes an empty file for its owner only (it will hold grant ids) where there is
// none, and checks that it can be written to and is a SQLite database or empty.
func Create(path string) error {
	return probe(path, os.O_RDWR|os.O_CREATE)
}

// Check is Create without the creating and the writing.
func Check(path string) error { return probe(path, os.O_RDONLY) }

func probe(path string, flag int) error {
	f, err := os.OpenFile(path, flag, 0o600)
	if err != nil {
		return fmt.Errorf("%s cannot be opened: %w", path, reason(err))
	}
	defer f.Close()
	const magic = "SQLite format 3\x00"
	head := make([]byte, len(magic))
	switch _, err := io.ReadFull(f, head); {
	case err == io.EOF: // empty: SQLite makes a database of it
		return nil
	case err == io.ErrUnexpectedEOF || err == nil && string(head) != magic:
		return fmt.Errorf("%s is not a SQLite database", path)
	case err != nil:
		return fmt.Errorf("%s cannot be read: %w", path, reason(err))
	}
	return nil
}

// Open opens the file at a resolved path. Every connection has the settings that
// fencegate's promises need: WAL with synchronous=FULL (a commit is on the disk when it
// returns) and a wait for other users' locks.
func Open(path string, m Mode) (*sql.DB, error) {
	q := url.Values{"_pragma": {"busy_timeout(5000)", "foreign_keys(1)"}}
	switch m {
	case Write:
		q["_pragma"] = append(q["_pragma"], "journal_mode(WAL)", "synchronous(FULL)")
		q.Set("_txlock", "immediate")
	case Read:
		q["_pragma"] = append(q["_pragma"], "query_only(1)")
		q.Set("mode", "ro")
	}
	slashed := filepath.ToSlash(path)
	if !strings.HasPrefix(slashed, "/") { // C:/...
		slashed = "/" + slashed
	}
	dsn := url.URL{Scheme: "file", Path: slashed, RawQuery: q.Encode()}
	db, err := sql.Open("sqlite", dsn.String())
	if err != nil {
		return nil, fmt.Errorf("%s cannot be opened: %w", path, err)
	}
	return db, nil
}

// reason takes the operation and the path out of a file error: the caller names the path.
func reason(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}

// IsError reports whether err is SQLite's own answer to a statement.
func IsError(err error) bool {
	_, ok := errors.AsType[*sqlite.Error](err)
	return ok
}
