package sqlitestore_test

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/storage"
	"github.com/fencegate/fencegate/storage/sqlitestore"
)

func TestReopen(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "store.db")
	b := open(t, path)
	tok := raised(t, b, "coupon:42", 34)
	if _, err := commit(t.Context(), b, tok, storage.Put("coupon:42", "n", []byte("10"))); err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}

	b = open(t, path)
	if rec, err := b.Get(t.Context(), "coupon:42", "n"); err != nil || string(rec.Value) != "10" || rec.Version != 1 {
		t.Errorf("the record after reopening = %v, %v", rec, err)
	}
	if m, err := b.Mark(t.Context(), "coupon:42"); err != nil || m != (fencing.Mark{Number: 34, Retired: true}) {
		t.Errorf("the mark after reopening = %v, %v, want 34, retired", m, err)
	}
	_, write := commit(t.Context(), b, tok, storage.Put("coupon:42", "n", []byte("9")))
	_, read := b.GetFenced(t.Context(), tok, "n")
	for what, err := range map[string]error{"write": write, "read": read, "raise": b.Raise(t.Context(), tok)} {
		if stale, ok := errors.AsType[*fencing.StaleError](err); !ok || stale.Reason != fencing.Retired {
			t.Errorf("%s with the token of the run before = %v, want refused as retired", what, err)
		}
	}
	raised(t, b, "coupon:42", 35)
}

func TestOneProcessAFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "store.db")
	open(t, path)
	link := filepath.Join(dir, "link.db")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{path, link, filepath.Join(dir, ".", "x", "..", "store.db")} {
		_, err := sqlitestore.Open(t.Context(), name, nil)
		if !errors.Is(err, sqlitestore.ErrInUse) || !strings.Contains(err.Error(), path) {
			t.Errorf("a second open as %s = %v, want ErrInUse and the file's name", name, err)
		}
	}
	out, err := child(t, path).CombinedOutput()
	if err == nil || !strings.Contains(string(out), path+": the database file is in use") {
		t.Errorf("another process: %v, %s", err, out)
	}
}

// TestLinkToNothing: a link to a file that is not there yet names that file, before and after
// Open has made it.
func TestLinkToNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, link := filepath.Join(dir, "real.db"), filepath.Join(dir, "link.db")
	if err := os.Symlink("real.db", link); err != nil {
		t.Fatal(err)
	}
	open(t, link)
	for _, name := range []string{link, path} {
		if _, err := sqlitestore.Open(t.Context(), name, nil); !errors.Is(err, sqlitestore.ErrInUse) {
			t.Errorf("a second open as %s = %v, want ErrInUse", name, err)
		}
	}
}

// TestKilledInFirstOpen: a note that the first step is half done is settled by what is there.
func TestKilledInFirstOpen(t *testing.T) {
	t.Parallel()
	t.Run("before the step", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "store.db")
		edit(t, path, "CREATE TABLE fencegate_migrations (version uint64, dirty bool); INSERT INTO fencegate_migrations VALUES (1, 1)")
		raised(t, open(t, path), "a", 1)
	})
	t.Run("after the step", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "store.db")
		b := open(t, path)
		raised(t, b, "a", 1)
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		edit(t, path, "UPDATE fencegate_migrations SET dirty = 1")
		b = open(t, path)
		if m, err := b.Mark(t.Context(), "a"); err != nil || m.Number != 1 {
			t.Errorf("the mark is %v, %v, want 1", m, err)
		}
	})
}

// edit runs statements as another program does, by its own connection.
func edit(t *testing.T, path, statements string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.ExecContext(t.Context(), statements)
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestOpenWaits(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "store.db")
	first := open(t, path)
	start := time.Now()
	if _, err := sqlitestore.Open(t.Context(), path, &sqlitestore.Options{Wait: 50 * time.Millisecond}); !errors.Is(err, sqlitestore.ErrInUse) {
		t.Errorf("got %v, want ErrInUse", err)
	}
	if d := time.Since(start); d < 50*time.Millisecond {
		t.Errorf("gave up after %v, want 50ms", d)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := sqlitestore.Open(ended, path, &sqlitestore.Options{Wait: time.Minute}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	opened := make(chan error, 1)
	go func() {
		b, err := sqlitestore.Open(t.Context(), path, &sqlitestore.Options{Wait: time.Minute})
		if err == nil {
			err = b.Close()
		}
		opened <- err
	}()
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-opened; err != nil {
		t.Errorf("open after the file was given back: %v", err)
	}
}

func TestBadFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text, short, full := filepath.Join(dir, "text"), filepath.Join(dir, "short"), filepath.Join(dir, "damaged")
	for path, content := range map[string]string{
		text: strings.Repeat("not a database\n", 100), short: "x",
		full: "SQLite format 3\x00" + strings.Repeat("\xff", 5000),
	} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]string{
		text:                                 text + " is not a SQLite database",
		short:                                short + " is not a SQLite database",
		full:                                 full + " is not a SQLite database",
		dir:                                  dir + " cannot be opened: is a directory",
		filepath.Join(dir, "none", "a.db"):   "no such file or directory",
		filepath.Join(text, "a.db"):          "not a directory",
		":memory:":                           "memstore",
		"":                                   "the path of a file",
		"file:" + filepath.Join(dir, "a.db"): "the path of a file",
	} {
		_, err := sqlitestore.Open(t.Context(), path, nil)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") || len(err.Error()) > 400 {
			t.Errorf("Open(%q) = %v, want one sentence with %q", path, err, want)
		}
	}
	if got, err := os.ReadFile(text); err != nil || !strings.HasPrefix(string(got), "not a database") {
		t.Errorf("a file that is no database was changed: %.30s, %v", got, err)
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "store.db")
	for _, o := range []sqlitestore.Options{{MaxBatch: -1}, {MaxBatch: 10001}, {Wait: -1}, {KeyRetention: -1}, {KeyRetention: 1}} {
		if _, err := sqlitestore.Open(t.Context(), path, &o); !errors.Is(err, fencing.ErrInvalid) {
			t.Errorf("Open with %+v = %v, want ErrInvalid", o, err)
		}
	}
}

// TestFileIsPrivate: it holds grant ids.
func TestFileIsPrivate(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "store.db")
	b := open(t, path)
	raised(t, b, "a", 1)
	list, err := filepath.Glob(path + "*")
	if err != nil || len(list) < 3 {
		t.Fatalf("files: %v, %v", list, err)
	}
	for _, name := range list {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v, want 0600", name, info.Mode(), err)
		}
	}
}

func TestClosed(t *testing.T) {
	t.Parallel()
	b := openNew(t)
	tok := raised(t, b, "a", 1)
	for range 2 {
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
	}
	_, write := commit(t.Context(), b, tok, storage.Delete("a", "a"))
	_, get := b.Get(t.Context(), "a", "a")
	_, fenced := b.GetFenced(t.Context(), tok, "a")
	_, list := b.List(t.Context(), "a", "", "", 1)
	_, mark := b.Mark(t.Context(), "a")
	for i, err := range []error{write, get, fenced, list, mark, b.Raise(t.Context(), tok), b.Update(t.Context(), nil, tok)} {
		if !errors.Is(err, sqlitestore.ErrClosed) || fencing.OutcomeOf(err) != fencing.Failed {
			t.Errorf("call %d after Close = %v, want ErrClosed, failed", i, err)
		}
	}
}

func child(t *testing.T, path string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+path)
	return cmd
}

// TestKilled kills a writing process again and again. What it had printed was
// acknowledged, so it must be there; one commit more may be.
func TestKilled(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "store.db")
	for round := range 5 {
		cmd := child(t, path)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var last int64
		lines := bufio.NewScanner(out)
		for n := 1; lines.Scan(); n++ { // to the end, also of what was printed before the kill
			if last, err = strconv.ParseInt(lines.Text(), 10, 64); err != nil {
				t.Fatal(err)
			}
			if n == 20+7*round {
				_ = cmd.Process.Kill()
			}
		}
		_ = cmd.Wait()
		b := open(t, path)
		rec, err := b.Get(t.Context(), "child", "a")
		if err != nil || rec.Version < last || rec.Version > last+1 {
			t.Errorf("round %d: the version is %d (%v), the last one acknowledged was %d", round, rec.Version, err, last)
		}
		if m, err := b.Mark(t.Context(), "child"); err != nil || m != (fencing.Mark{Number: int64(round + 1), Retired: true}) {
			t.Errorf("round %d: the mark is %v, %v", round, m, err)
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		if last == 0 {
			t.Fatalf("round %d: the child wrote nothing", round)
		}
	}
}
