//go:build unix

package main

import (
	"os"
	"os/exec"
	"regexp"
	"testing"
)

// TestReadmeCommands runs the README's shell block in the project's root.
func TestReadmeCommands(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?ms)^```sh\n(.*?)^```$").FindAllStringSubmatch(string(page), -1)
	if len(blocks) != 1 {
		t.Fatalf("the README has %d shell blocks, want 1", len(blocks))
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", blocks[0][1])
	cmd.Dir = "../.."
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
