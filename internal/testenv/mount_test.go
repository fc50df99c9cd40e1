package testenv_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/fencegate/fencegate/internal/testenv"
)

// TestMount puts the data below a directory that the options' function was given, keeps it there for an empty restart
// and a restored copy, and gives the directory back when the server is gone.
func TestMount(t *testing.T) {
	t.Parallel()
	var dir string
	mounted, unmounted := 0, 0
	mount := func(d string) (func() error, error) {
		mounted++
		dir = d
		if list, err := os.ReadDir(d); err != nil || len(list) > 0 {
			t.Errorf("before anything is in it: %v, %v", list, err)
		}
		return func() error {
			unmounted++
			return nil
		}, nil
	}
	t.Run("inside", func(t *testing.T) {
		r := testenv.StartRedis(t, &testenv.RedisOptions{AppendOnly: true, Mount: mount})
		r.SaveCopy()
		r.RestoreCopy()
		r.RestartEmpty()
		if _, err := os.Stat(filepath.Join(dir, "data", "appendonlydir")); err != nil {
			t.Errorf("the data is not there: %v", err)
		}
	})
	if mounted != 1 || unmounted != 1 {
		t.Errorf("mounted %d times and unmounted %d times, want once", mounted, unmounted)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("the directory outlives the server")
	}
}

func TestTempDir(t *testing.T) {
	t.Parallel()
	var dir string
	t.Run("inside", func(t *testing.T) {
		dir = testenv.TempDir(t)
		if other := testenv.TempDir(t); other == dir {
			t.Error("two directories are one")
		}
		if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
			t.Error(err)
		}
	})
	if _, err := os.Stat(dir); err == nil {
		t.Error("the directory outlives its test")
	}
}
