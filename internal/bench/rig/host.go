// Package rig is what the benchmarks stand on: private servers, clients, and a proxy that
// counts and delays.
package rig

import (
	"fmt"
	"slices"
	"testing"
)

// Host lets testenv start its servers for a program, in the place of a test: what would end
// a test ends Host.Run, and what would be cleaned up after a test is cleaned up then. It
// has only what testenv needs of a testing.TB.
type Host struct {
	testing.TB // nil: a method that is not below panics
	cleanups   []func()
}

// fatal is what a failing server panics with; Run takes it up.
type fatal struct{ text string }

// Run calls fn with a new host, cleans up, and returns fn's error or why the host ended it.
func Run(fn func(*Host) error) (err error) {
	h := &Host{}
	defer func() {
		for _, clean := range slices.Backward(h.cleanups) {
			clean()
		}
	}()
	defer func() {
		switch p := recover().(type) {
		case nil:
		case fatal:
			err = fmt.Errorf("%s", p.text)
		default:
			panic(p)
		}
	}()
	return fn(h)
}

// Helper implements testing.TB.
func (*Host) Helper() {}

// Cleanup implements testing.TB.
func (h *Host) Cleanup(fn func()) { h.cleanups = append(h.cleanups, fn) }

// Failed implements testing.TB: a program has no verdict.
func (*Host) Failed() bool { return false }

// Logf implements testing.TB.
func (*Host) Logf(string, ...any) {}

// Errorf implements testing.TB: it is called while cleaning up, when the figures are there.
func (*Host) Errorf(string, ...any) {}

// Fatalf implements testing.TB.
func (*Host) Fatalf(format string, args ...any) { panic(fatal{fmt.Sprintf(format, args...)}) }

// Skipf implements testing.TB: a server that is not installed.
func (*Host) Skipf(format string, args ...any) { panic(fatal{fmt.Sprintf(format, args...)}) }

// Fatal implements testing.TB.
func (*Host) Fatal(args ...any) { panic(fatal{fmt.Sprint(args...)}) }
