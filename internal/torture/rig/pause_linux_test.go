package rig_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/fencegate/fencegate/internal/torture/rig"
)

// TestPauseIsComplete looks at the threads of a client at once after Pause.
func TestPauseIsComplete(t *testing.T) {
	t.Parallel()
	r, _ := build(t, rig.Spec{Lock: "redis", Store: "redis", Volatile: true, Processes: 1})
	check(t, "start the clients", r.StartClients(t.Context()))
	p := r.Clients[0]
	for range 200 {
		check(t, "pause", p.Pause())
		files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.Pid()))
		if err != nil || len(files) == 0 {
			t.Fatalf("it has no threads: %v", err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			check(t, "look", err)
			if !bytes.Contains(text, []byte(") T ")) {
				t.Fatalf("a thread runs: %s", text)
			}
		}
		check(t, "resume", p.Resume())
	}
}
