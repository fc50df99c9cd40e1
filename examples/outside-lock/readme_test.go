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

// TestReadme runs the README's shell blocks in the project's root, and compares what each prints
// with the block that follows it, but for what the lock service decides.
func TestReadme(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("etcd"); err != nil {
		t.Fatal("etcd is not installed: run `make deps` (Debian package etcd-server)")
	}
	page, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?ms)^```sh\n(.*?)^```\n\n```text\n(.*?)^```$").FindAllStringSubmatch(string(page), -1)
	if len(blocks) != 2 {
		t.Fatalf("the README has %d shell blocks with their output, want 2", len(blocks))
	}
	revisions := regexp.MustCompile(`\b(127\.0\.0\.1:\d+|(holds|with|seen) \d+)`)
	for _, block := range blocks {
		t.Run(strings.SplitN(block[1], "\n", 2)[0], func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", block[1])
			cmd.Dir, cmd.Env = "../..", append(os.Environ(), "no_proxy=127.0.0.1", "FENCEGATE_LISTEN="+testenv.FreeAddress(t))
			var errs strings.Builder
			cmd.Stderr = &errs
			out, err := cmd.Output()
			got, want := revisions.ReplaceAllString(string(out), "$2"), revisions.ReplaceAllString(block[2], "$2")
			if err != nil || got != want {
				t.Errorf("%v: got\n%s%s\nwant\n%s", err, out, errs.String(), block[2])
			}
		})
	}
}
