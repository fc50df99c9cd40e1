package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

const module = "github.com/fencegate/fencegate"

// findServer returns the fencegate program for gateways: the one that was named, the one beside this program,
// the one in the path; else it is built, where this is its source tree. remove takes away what was built.
func findServer(ctx context.Context, named string, log io.Writer) (path string, remove func(), err error) {
	nothing := func() {}
	if named != "" {
		path, err := program("--server", named)
		return path, nothing, err
	}
	name := "fencegate"
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	if self, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(self), name)
		if info, err := os.Stat(beside); err == nil && !info.IsDir() {
			return beside, nothing, nil
		}
	}
	if path, err := exec.LookPath(name); err == nil {
		path, err := filepath.Abs(path)
		return path, nothing, err
	}
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Path}} {{.Dir}}").Output()
	if in, _, _ := strings.Cut(strings.TrimSpace(string(out)), " "); err != nil || in != module {
		return "", nil, usageError{errors.New("gateways need the fencegate program, which is not beside this one, not in the path, and this is not its source tree; want --server PATH")}
	}
	dir, err := os.MkdirTemp("", "fencegate-torture-*")
	if err != nil {
		return "", nil, err
	}
	remove = func() { _ = os.RemoveAll(dir) }
	path = filepath.Join(dir, name)
	fmt.Fprintln(log, "fencegate-torture: building the server")
	build := exec.CommandContext(ctx, "go", "build", "-o", path, module+"/cmd/fencegate")
	if out, err := build.CombinedOutput(); err != nil {
		remove()
		return "", nil, statusError{exitVoid, fmt.Errorf("build the server: %w\n%s", err, out)}
	}
	return path, remove, nil
}

// program is the path of one that was named; none where none was.
func program(flag, named string) (string, error) {
	if named == "" {
		return "", nil
	}
	if info, err := os.Stat(named); err != nil || info.IsDir() {
		return "", usagef("%s %s: there is no such program", flag, named)
	}
	return filepath.Abs(named)
}
