//go:build linux || darwin

package sqlitestore_test

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/storage"
	"github.com/fencegate/fencegate/storage/sqlitestore"
)

// writeToTheLimit prints the outcomes of a commit before, at and after an error of the
// disk within COMMIT: a limit on the size of files is one.
func writeToTheLimit(path string) error {
	signal.Ignore(syscall.SIGXFSZ) // so that it is an error of the write
	ctx := context.Background()
	b, err := sqlitestore.Open(ctx, path, nil)
	if err != nil {
		return err
	}
	t := fencing.Token{Resource: "child", Number: 1, Grant: fencing.NewGrant()}
	if err := b.Raise(ctx, t); err != nil {
		return err
	}
	wal, err := os.Stat(path + "-wal")
	if err != nil {
		return err
	}
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		return err
	}
	limited := before
	limited.Cur = uint64(wal.Size()) + 8192
	for _, step := range []struct {
		limit syscall.Rlimit
		size  int
	}{{before, 100}, {limited, 100 << 10}, {before, 100}} {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &step.limit); err != nil {
			return err
		}
		_, err := commit(ctx, b, t, storage.Put("child", "a", make([]byte, step.size)))
		fmt.Println(fencing.OutcomeOf(err))
	}
	return b.Close()
}

// TestErrorOfTheDisk: after an input/output error in COMMIT nobody knows what the next
// run will find in the WAL.
func TestErrorOfTheDisk(t *testing.T) {
	t.Parallel()
	cmd := child(t, filepath.Join(t.TempDir(), "store.db"))
	cmd.Env = append(cmd.Env, limitEnv+"=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if want := "applied\nunknown\napplied\n"; err != nil || string(out) != want {
		t.Errorf("got %q, %v, want %q", out, err, want)
	}
}
