package torture_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fencegate/fencegate/internal/torture"
	"github.com/fencegate/fencegate/internal/torture/report"
)

// TestCrash: a client that breaks is a violation, not a fault that was made.
func TestCrash(t *testing.T) { //nolint:paralleltest // it must find its own clients
	c := small("client-kill")
	c.Duration = time.Minute
	killed := false
	out, err := torture.Run(t.Context(), c, func(p torture.Progress) {
		if p.Doing == "warming up" && p.Ops > 20 && !killed {
			killed = true
			abort(t)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if r := out.Run; r.Verdict != report.Violated || !strings.Contains(r.Why, "client") {
		t.Errorf("got %s: %s", r.Verdict, r.Why)
	}
}

// abort breaks a client of this process as a panic would.
func abort(t *testing.T) {
	t.Helper()
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	self := []byte(os.Args[0])
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil || !bytes.HasPrefix(text, self) || !bytes.HasSuffix(text, []byte("\x00client\x00")) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err == nil && syscall.Kill(pid, syscall.SIGQUIT) == nil {
			return
		}
	}
	t.Error("there is no client to break")
}
