//go:build unix

package main

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/internal/readme"
	"github.com/fencegate/fencegate/internal/testenv"
)

// TestReadme runs the README's shell blocks in the project's root, and compares what each prints
// with the block that follows it, but for what the lock service decides.
func TestReadme(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("etcd"); err != nil {
		t.Fatal("etcd is not installed: run `make deps` (Debian package etcd-server)")
	}
	revisions := regexp.MustCompile(`\b(127\.0\.0\.1:\d+|(holds|with|seen) \d+)`)
	for _, s := range readme.Sessions(t, "README.md", 2) {
		t.Run(strings.SplitN(s.Script, "\n", 2)[0], func(t *testing.T) {
			t.Parallel()
			out := readme.Run(t, "../..", []string{"FENCEGATE_LISTEN=" + testenv.FreeAddress(t)}, s.Script)[0]
			got, want := revisions.ReplaceAllString(out, "$2"), revisions.ReplaceAllString(s.Output, "$2")
			if got != want {
				t.Errorf("got\n%s\nwant\n%s", out, s.Output)
			}
		})
	}
}
