package sqlitefile_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/sqlitefile"
)

// TestNames: no character of a path is special, neither to the URL that the driver reads
// nor to SQLite.
func TestNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a.db", "with space", "50%", "%41", "a#b", "a?b=c&_txlock=x", "é", "a+b", "a;b", "'"} {
		path, err := sqlitefile.Resolve(filepath.Join(t.TempDir(), name))
		if err != nil {
			t.Fatal(err)
		}
		lock(t, path)
		db, err := sqlitefile.Open(t.Context(), path, sqlitefile.Write)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = db.Exec("CREATE TABLE a (b)"); err != nil {
			t.Errorf("%q: %v", name, err)
		}
		_ = db.Close()
		if info, err := os.Stat(path); err != nil || info.Size() == 0 || info.Mode().Perm() != 0o600 {
			t.Errorf("%q: the database is not in its private file: %v, %v", name, info, err)
		}
	}
}

func TestResolve(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	want := filepath.Join(dir, "a.db")
	for name, target := range map[string]string{
		"link": dir, "b.db": want, "c.db": "a.db", "d.db": "c.db", "e.db": "link/a.db", "loop": "loop",
	} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, there := range []string{"before the file is there", "after"} {
		for _, name := range []string{"link/./a.db", "b.db", "c.db", "d.db", "e.db", "link/d.db"} {
			if got, err := sqlitefile.Resolve(filepath.Join(dir, name)); err != nil || got != want {
				t.Errorf("%s, %s: got %q, %v, want %q", name, there, got, err, want)
			}
		}
		if err := os.WriteFile(want, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := sqlitefile.Resolve(filepath.Join(dir, "loop")); err == nil {
		t.Error("a link to itself was resolved")
	}
	if _, err := sqlitefile.Resolve(dir); err == nil || !strings.Contains(err.Error(), "is a directory") {
		t.Errorf("a folder: got %v", err)
	}
	for _, bad := range []string{"", ":memory:", "file:" + want, want + ".lock", want + "-wal", want + "-shm", want + "-journal"} {
		if _, err := sqlitefile.Resolve(bad); !errors.Is(err, fencing.ErrInvalid) {
			t.Errorf("Resolve(%q) = %v, want ErrInvalid", bad, err)
		}
	}
}

func TestLock(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.db")
	unlock, err := sqlitefile.Lock(t.Context(), path, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sqlitefile.Lock(t.Context(), path, 0); !errors.Is(err, sqlitefile.ErrInUse) || !strings.Contains(err.Error(), path) {
		t.Errorf("a second lock = %v, want ErrInUse and the path", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	if _, err := sqlitefile.Lock(ctx, path, time.Minute); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, sqlitefile.ErrInUse) {
		t.Errorf("a wait whose context ended = %v, want context.DeadlineExceeded", err)
	}
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
	unlock, err = sqlitefile.Lock(t.Context(), path, 0)
	if err != nil {
		t.Fatalf("after unlock: %v", err)
	}
	_ = unlock()
	if _, err := sqlitefile.Lock(t.Context(), filepath.Join(path, "none", "a.db"), 0); err == nil || errors.Is(err, sqlitefile.ErrInUse) {
		t.Errorf("a lock where no file can be = %v", err)
	}
}

// TestReadOnly: a pool that reads cannot write, and creates nothing.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.db")
	if _, err := sqlitefile.Open(t.Context(), path, sqlitefile.Read); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there was opened for reading: %v", err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := sqlitefile.Open(t.Context(), path, sqlitefile.Read)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("CREATE TABLE a (b)"); !sqlitefile.IsError(err) {
		t.Errorf("a write = %v, want SQLite's refusal", err)
	}
}

// TestLockedNameMayNotChange: what is locked is what is opened, also where the name has
// become a link while the lock was waited for.
func TestLockedNameMayNotChange(t *testing.T) {
	t.Parallel()
	path, err := sqlitefile.Resolve(filepath.Join(t.TempDir(), "a.db"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("b.db", path); err != nil {
		t.Fatal(err)
	}
	if _, err := sqlitefile.Lock(t.Context(), path, 0); err == nil || !strings.Contains(err.Error(), "b.db") {
		t.Errorf("got %v, want an error that tells the other name", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	lock(t, path) // it was given back
}

func lock(t *testing.T, path string) {
	t.Helper()
	unlock, err := sqlitefile.Lock(t.Context(), path, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unlock() })
}
