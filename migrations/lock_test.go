package migrations_test

import (
	"testing"

	"github.com/fencegate/fencegate/internal/sqlitefile"
)

// hold takes a file's lock, as a running store does.
func hold(t *testing.T, path string) {
	t.Helper()
	unlock, err := sqlitefile.Lock(t.Context(), path, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unlock() })
}
