package testenv_test

import (
	"os"
	"testing"

	"github.com/fencegate/fencegate/internal/testenv"
)

func TestMain(m *testing.M) {
	if os.Getenv(victimEnv) != "" {
		// The victim of TestNothingOutlivesAKilledProcess must not clean up.
		os.Exit(m.Run())
	}
	testenv.Main(m)
}
