//go:build unix

package main

import (
	"testing"

	"github.com/fencegate/fencegate/internal/readme"
)

// TestReadmeCommands runs the README's shell block in the project's root.
func TestReadmeCommands(t *testing.T) {
	t.Parallel()
	readme.Run(t, "../..", nil, readme.Blocks(t, "README.md", 1, "sh")[0])
}
