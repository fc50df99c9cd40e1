package storagetest

import (
	"context"
	"fmt"
	"testing"

	"github.com/fencegate/fencegate/fencing"
)

// Play runs one scenario by its name.
func Play(tb testing.TB, h Harness, name string, mode fencing.Mode, s Subject) {
	tb.Helper()
	for _, sc := range scenarios() {
		if sc.name == name {
			sc.run(tb, h, mode, s)
			return
		}
	}
	panic("no such scenario: " + name)
}

// Names returns the names of all scenarios, and the modes of each.
func Names() map[string][]fencing.Mode {
	names := map[string][]fencing.Mode{}
	for _, sc := range scenarios() {
		names[sc.name] = sc.modes
	}
	return names
}

// Differ runs n random sequences, always the same ones, and returns the first difference.
func Differ(ctx context.Context, h Harness, tb testing.TB, mode fencing.Mode, n int) error {
	s, gen := h.New(tb, mode), stepsGen()
	for i := range n {
		if err := differ(ctx, s, mode, fmt.Sprintf("differ-%d", i), gen.Example(i)); err != nil {
			return err
		}
	}
	return nil
}
