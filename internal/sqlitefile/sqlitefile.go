// Package sqlitefile opens SQLite database files the way fencegate needs them, and keeps
// a second process out of them.
//
// Nothing here opens a database file but SQLite. Where a process closes any descriptor of
// a file, POSIX drops all locks that this process has on it, SQLite's too: other processes
// then take themselves for the last user and delete the write-ahead log of a running
// store. SQLite knows all its own descriptors of a file, and closes none too early.
package sqlitefile

import (
	"cmp"
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/fencegate/fencegate/fencing"
)

// ErrInUse matches the error of [Lock] when somebody else has the file.
var ErrInUse = errors.New("the database file is in use")

//go:embed schema_version.sql
var schemaVersionSQL string

// Mode is how [Open] opens a file.
type Mode int

// The modes.
const (
	Write Mode = iota // transactions take the write lock when they begin
	Read              // never writes, creates nothing
)

// Resolve checks path and returns its one name: absolute, symbolic links followed, also
// one that points to nothing yet, so that one file has one lock. The file need not exist,
// its folder must. Hard links and bind mounts of a single file are not recognised.
func Resolve(path string) (string, error) {
	if path == "" || path == ":memory:" || strings.HasPrefix(path, "file:") {
		return "", &fencing.InvalidError{What: "database file", Got: fmt.Sprintf("%q", path), Allowed: "the path of a file"}
	}
	name, err := filepath.Abs(path)
	if err == nil {
		name, err = follow(name)
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, reason(err))
	}
	for _, taken := range []string{".lock", "-wal", "-shm", "-journal"} {
		if strings.HasSuffix(name, taken) {
			return "", &fencing.InvalidError{
				What: "database file", Got: fmt.Sprintf("%q", name),
				Allowed: "a name that does not end in " + taken + ", as the files beside a database do",
			}
		}
	}
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		return "", fmt.Errorf("%s cannot be opened: is a directory", name)
	}
	return name, nil
}

// maxLinks is how many links one name may go through, as in most systems.
const maxLinks = 40

// follow is filepath.EvalSymlinks for a file that need not exist.
func follow(name string) (string, error) {
	for range maxLinks {
		if real, err := filepath.EvalSymlinks(name); err == nil {
			return real, nil
		}
		dir, base := filepath.Split(name) // not Dir: it would cut "a/../b" short, and a may be a link
		dir, err := filepath.EvalSymlinks(dir)
		if err != nil {
			return "", err
		}
		name = filepath.Join(dir, base)
		target, err := os.Readlink(name)
		if err != nil { // no link: the file is to be created here
			return name, nil //nolint:nilerr // the error is the answer
		}
		if !filepath.IsAbs(target) {
			target = dir + string(filepath.Separator) + target
		}
		name = target
	}
	return "", errors.New("too many symbolic links")
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
		if now, err := Resolve(path); err != nil || now != path { // whatever it was when the wait began
			_ = l.Close()
			return nil, fmt.Errorf("%s: meanwhile this became the name of something else (%w)", path, cmp.Or(err, errors.New(now)))
		}
		return l.Close, nil
	case err != nil:
		return nil, fmt.Errorf("%s: the lock file cannot be opened: %w", path, reason(err))
	case ctx.Err() != nil:
		return nil, fmt.Errorf("%s: %w", path, context.Cause(ctx))
	}
	return nil, fmt.Errorf("%s: %w: another fencegate has it open, and only one may", path, ErrInUse)
}

// minPage is the size of SQLite's smallest page.
const minPage = 512

// Open opens the file at a resolved path and looks whether it is a database, which in mode
// Write can be written to. Every connection has the settings that fencegate's promises
// need: WAL with synchronous=FULL (a commit is on the disk when it returns) and a wait for
// other users' locks.
//
// Mode Write makes the file where there is none, for its owner only (it will hold grant
// ids). The caller must have the file's [Lock]. Mode Read needs no lock.
func Open(ctx context.Context, path string, m Mode) (*sql.DB, error) {
	switch info, err := os.Stat(path); { // not open: see the package's comment
	case err != nil && (m == Read || !errors.Is(err, fs.ErrNotExist)):
		return nil, fmt.Errorf("%s cannot be opened: %w", path, reason(err))
	case err == nil && 0 < info.Size() && info.Size() < minPage: // SQLite would take it for empty
		return nil, fmt.Errorf("%s is not a SQLite database", path)
	}
	db, err := sql.Open("sqlite", source(path, m))
	if err != nil {
		return nil, fmt.Errorf("%s cannot be opened: %w", path, err)
	}
	if err := look(ctx, db, m); err != nil {
		_ = db.Close()
		if e, ok := errors.AsType[*sqlite.Error](err); ok && e.Code()&0xff == sqlite3.SQLITE_NOTADB {
			return nil, fmt.Errorf("%s is not a SQLite database", path)
		}
		return nil, fmt.Errorf("%s cannot be opened: %w", path, err)
	}
	return db, nil
}

// look makes SQLite read the file's header, and write to the file if it is to be written
// to: where it may not, SQLite opens the file all the same, for reading.
func look(ctx context.Context, db *sql.DB, m Mode) error {
	if m == Read {
		var version int64
		return db.QueryRowContext(ctx, schemaVersionSQL).Scan(&version)
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	return tx.Rollback()
}

// source is what the driver, and SQLite in its turn, read as a URL.
func source(path string, m Mode) string {
	q := url.Values{"_pragma": {"busy_timeout(5000)", "foreign_keys(1)"}}
	switch m {
	case Write:
		q["_pragma"] = append(q["_pragma"], "journal_mode(WAL)", "synchronous(FULL)")
		q.Set("_txlock", "immediate")
		q.Set("modeof", path+".lock") // a new file gets the lock file's permissions
	case Read:
		q["_pragma"] = append(q["_pragma"], "query_only(1)")
		q.Set("mode", "ro")
	}
	slashed := filepath.ToSlash(path)
	if !strings.HasPrefix(slashed, "/") { // C:/...
		slashed = "/" + slashed
	}
	query := strings.ReplaceAll(q.Encode(), "+", "%20") // SQLite does not read + as a space
	return (&url.URL{Scheme: "file", Path: slashed, RawQuery: query}).String()
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
