//go:build unix

package main

import (
	"testing"

	"github.com/fencegate/fencegate/internal/readme"
	"github.com/fencegate/fencegate/internal/testenv"
)

// TestReadme runs the README's shell block in the project's root, and compares what it prints with
// the block that follows it.
func TestReadme(t *testing.T) {
	t.Parallel()
	s := readme.Sessions(t, "README.md", 1)[0]
	if got := readme.Run(t, "../..", []string{"FENCEGATE_LISTEN=" + testenv.FreeAddress(t)}, s.Script)[0]; got != s.Output {
		t.Errorf("got\n%s\nwant\n%s", got, s.Output)
	}
}
