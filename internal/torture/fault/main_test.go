package fault_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/internal/torture/client"
)

// The client processes of the tests are this program.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "client" {
		if err := client.Main(context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	code := testenv.Run(m)
	if binary.dir != "" {
		_ = os.RemoveAll(binary.dir)
	}
	os.Exit(code)
}

// binary is the fencegate binary, built by the first test that asks.
var binary struct {
	once sync.Once
	dir  string
	err  error
}

func server(t *testing.T) string {
	t.Helper()
	binary.once.Do(func() {
		if binary.dir, binary.err = os.MkdirTemp("", "fencegate-fault-"); binary.err != nil { //nolint:usetesting // it is for all tests
			return
		}
		cmd := exec.Command("go", "build", "-o", binary.dir, "github.com/fencegate/fencegate/cmd/fencegate")
		if out, err := cmd.CombinedOutput(); err != nil {
			binary.err = fmt.Errorf("%w\n%s", err, out)
		}
	})
	if binary.err != nil {
		t.Fatal(binary.err)
	}
	return filepath.Join(binary.dir, "fencegate")
}
