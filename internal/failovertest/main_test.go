package failovertest_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/fencegate/fencegate/internal/testenv"
)

// TestMain also looks for goroutines that are left over, see INV13.
func TestMain(m *testing.M) {
	code := testenv.Run(m)
	for tries := 10; code == 0; tries-- { // about a second each
		err := goleak.Find(testenv.Goroutines()...)
		if err == nil {
			break
		}
		if tries == 0 {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

const (
	ttl = 2 * time.Second
	// healed is how long after a fault everybody must have been granted the lock again: INV13.
	healed = ttl + 10*time.Second
	// slack is what a busy machine may need beyond that.
	slack = 20 * time.Second
	// patience bounds one call.
	patience = 3 * time.Second
	record   = "n"
)
