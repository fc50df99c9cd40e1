package sqlitefile_test

import (
	"context"
	"errors"
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
		if err := sqlitefile.Create(path); err != nil {
			t.Fatal(err)
		}
		db, err := sqlitefile.Open(path, sqlitefile.Write)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = db.Exec("CREATE TABLE a (b)"); err != nil {
			t.Errorf("%q: %v", name, err)
		}
		_ = db.Close()
		if info, err := os.Stat(path); err != nil || info.Size() == 0 {
			t.Errorf("%q: the database is not in its file: %v", name, err)
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
	link := filepath.Join(dir, "link")
	if err := errors.Join(os.Symlink(dir, link), os.Symlink(want, filepath.Join(dir, "b.db"))); err != nil {
		t.Fatal(err)
	}
	for range 2 { // before the file is there, and after
		if got, err := sqlitefile.Resolve(filepath.Join(link, ".", "a.db")); err != nil || got != want {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
		if err := sqlitefile.Create(want); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := sqlitefile.Resolve(filepath.Join(dir, "b.db")); err != nil || got != want {
		t.Errorf("by a link: got %q, %v, want %q", got, err, want)
	}
	for _, bad := range []string{"", ":memory:", "file:" + want} {
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
	db, err := sqlitefile.Open(path, sqlitefile.Read)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.Ping(); err == nil {
		t.Error("a file that is not there was opened for reading")
	}
	if err := sqlitefile.Create(path); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("CREATE TABLE a (b)"); !sqlitefile.IsError(err) {
		t.Errorf("a write = %v, want SQLite's refusal", err)
	}
}
