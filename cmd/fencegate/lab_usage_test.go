//go:build unix

package main

import (
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/internal/trace"
)

// refused runs a command that must end by itself, and fast.
func refused(t *testing.T, args ...string) (status int, out, errs string) {
	t.Helper()
	var o, e strings.Builder
	cmd := command(t, args...)
	cmd.Stdout, cmd.Stderr = &o, &e
	if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), o.String(), e.String()
}

// TestLabUsage gives the lab what it cannot take: it says so, and by its exit status.
func TestLabUsage(t *testing.T) {
	t.Parallel()
	busy, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = busy.Close() })
	for _, c := range []struct {
		args   string
		status int
		want   string
	}{
		{"--listen " + busy.Addr().String(), exitFailed, `--listen: .*address already in use`},
		{"--listen 0.0.0.0:0", exitUsage, `HOST:PORT of this machine.*serve --lab`},
		{"--nothing", exitUsage, `unknown flag --nothing`},
		{"--store sqlite --sqlite-path " + t.TempDir() + "/no/where.db", exitFailed, `where\.db`},
		{"--lock redis", exitUsage, `--redis-url is needed`},
		{"--lock redis --redis-url redis://:hush@127.0.0.1:1", exitUnavailable, `127\.0\.0\.1:1 does not answer`},
		{"--redis-url redis://127.0.0.1:1", exitUsage, `--redis-url .* would not be used`},
	} {
		args := strings.Fields("lab " + c.args)
		if !strings.Contains(c.args, "--listen") {
			args = append(args, "--listen", "127.0.0.1:0")
		}
		status, out, errs := refused(t, args...)
		if status != c.status || out != "" || strings.Contains(errs, "hush") || !regexp.MustCompile(c.want).MatchString(errs) {
			t.Errorf("lab %s: status %d, want %d: %s%s", c.args, status, c.status, out, errs)
		}
	}
}

// TestDemoFiles asks for files that cannot be written: nothing is played for them. One that can is whole,
// whatever comes on standard output.
func TestDemoFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"--trace", filepath.Join(dir, "no", "where.json")},
		{"--trace", dir},
		{"--svg", file},
	} {
		status, out, errs := refused(t, append([]string{"demo", "--mode", "fence"}, args...)...)
		if status != exitFailed || out != "" || !strings.Contains(errs, args[0]+": ") {
			t.Errorf("%q: status %d: %s%s", args, status, out, errs)
		}
	}
	recorded := filepath.Join(dir, "trace.json")
	status, out, errs := refused(t, "demo", "--mode", "fence", "--ttl", "300ms", "--output", "json", "--trace", recorded)
	if status != 0 || !json.Valid([]byte(out)) {
		t.Fatalf("status %d: %s%s", status, out, errs)
	}
	text, err := os.ReadFile(recorded)
	if err != nil {
		t.Fatal(err)
	}
	var f trace.File
	if err := json.Unmarshal(text, &f); err != nil || f.Format != trace.Format || f.Version != trace.Version || len(f.Runs) != 1 || len(f.Runs[0].Events) == 0 {
		t.Fatalf("%v: %+v", err, f)
	}
	refusedWrites := 0
	for i, e := range f.Runs[0].Events {
		if e.Seq != i+1 || e.Text == "" || e.Outcome == "" || e.Actor == "" || e.DoneMS < e.AtMS {
			t.Errorf("got %+v", e)
		}
		if e.Reason == "superseded" && e.Number == "33" && e.Highest == "34" {
			refusedWrites++
		}
	}
	if refusedWrites != 1 {
		t.Errorf("A's late write is not told as refused: %s", text)
	}
}
