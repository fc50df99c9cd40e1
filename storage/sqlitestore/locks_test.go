//go:build linux || darwin

package sqlitestore_test

import (
	"bufio"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestLookingKeepsTheLocks: whatever a program does beside its running store, SQLite's own
// locks on the file stay. Without them another program that looks may take itself for the last
// user and delete the WAL, and what is acknowledged from then on is lost.
func TestLookingKeepsTheLocks(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"a second Open", "the version", "a migration"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "store.db")
			cmd := child(t, path)
			cmd.Env = append(cmd.Env, lookEnv+"="+how)
			cmd.Stderr = os.Stderr
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(out)
			want := func(line string) {
				t.Helper()
				if !lines.Scan() || lines.Text() != line {
					t.Fatalf("the child said %q (%v), want %q", lines.Text(), lines.Err(), line)
				}
			}
			want("looked")
			lookAsOldSQLite(t, path)
			if _, err := in.Write([]byte("\n")); err != nil {
				t.Fatal(err)
			}
			want("acknowledged")
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			if rec, err := open(t, path).Get(t.Context(), "child", "a"); err != nil || string(rec.Value) != "9" {
				t.Errorf("an acknowledged write is lost: the value is %q, version %d, %v", rec.Value, rec.Version, err)
			}
		})
	}
}

// lookAsOldSQLite does what SQLite did up to 3.50 when a connection to a file in WAL mode was
// closed (since then it looks at more than this lock): if it gets the file's lock for itself
// alone, it is the last user, and the WAL is removed.
func lookAsOldSQLite(t *testing.T, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	shared := syscall.Flock_t{Type: syscall.F_WRLCK, Whence: io.SeekStart, Start: 0x40000002, Len: 510} // SQLite's SHARED_FIRST, SHARED_SIZE
	if err := syscall.FcntlFlock(f.Fd(), syscall.F_SETLK, &shared); err != nil {
		return // in use
	}
	for _, name := range []string{path + "-wal", path + "-shm"} {
		if err := os.Remove(name); err != nil {
			t.Error(err)
		}
	}
}
