package memlock_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/locking/lockingtest"
	"github.com/fencegate/fencegate/locking/memlock"
)

var names atomic.Int64

func unique(_ testing.TB, prefix string) string { return fmt.Sprintf("%s:%d", prefix, names.Add(1)) }

func TestBackend(t *testing.T) {
	t.Parallel()
	lockingtest.RunBackend(t, lockingtest.BackendHarness{
		New:    func(testing.TB) locking.Backend { return memlock.New() },
		Unique: unique,
		Line:   true, Transfers: true,
	})
}
