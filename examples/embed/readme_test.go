//go:build unix

package main

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/internal/testenv"
)

// TestReadme runs the README's shell block in the project's root, and compares what it prints with
// the block that follows it.
func TestReadme(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?ms)^```sh\n(.*?)^```\n\n```text\n(.*?)^```$").FindAllStringSubmatch(string(page), -1)
	if len(blocks) != 1 {
		t.Fatalf("the README has %d shell blocks with their output, want 1", len(blocks))
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", blocks[0][1])
	cmd.Dir, cmd.Env = "../..", append(os.Environ(), "no_proxy=127.0.0.1", "FENCEGATE_LISTEN="+testenv.FreeAddress(t))
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil || string(out) != blocks[0][2] {
		t.Errorf("%v: got\n%s%s\nwant\n%s", err, out, errs.String(), blocks[0][2])
	}
}
