package fault

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/internal/torture/rig"
)

const (
	clockEnv   = "FENCEGATE_CLOCK" // as in shim/clock.c
	clockSlots = 65536
)

// clockTable is the name of a file that says by how much clocks are off, see shim/clock.c.
type clockTable string

// prepareClocks has the Redis servers of a rig take their time from a table, all from the same. A
// *VoidError says why that cannot be done here.
func prepareClocks(s *rig.Spec) error {
	if _, ok := findClocks(s.RedisEnv); ok {
		return nil
	}
	library, err := clockLibrary()
	if err != nil {
		return err
	}
	dir, err := processDir()
	if err != nil {
		return err
	}
	table := filepath.Join(dir, "clocks")
	f, err := os.OpenFile(table, os.O_CREATE|os.O_WRONLY, 0o644) //nolint:gosec // the servers' user reads it
	if err != nil {
		return err
	}
	if err := errors.Join(f.Truncate(8*clockSlots), f.Close(), os.Chmod(dir, 0o711)); err != nil { //nolint:gosec // and must be able to pass
		return err
	}
	s.RedisEnv = append(slices.Clip(preload(s.RedisEnv, library)), clockEnv+"="+table)
	return nil
}

// clocksOf returns the table that prepareClocks has made for a rig.
func clocksOf(s rig.Spec) (clockTable, error) {
	if table, ok := findClocks(s.RedisEnv); ok {
		return table, nil
	}
	if _, err := clockLibrary(); err != nil {
		return "", err // as it was before the servers were started
	}
	return "", errors.New("the servers have no clock that could jump: was the fault prepared?")
}

func findClocks(env []string) (clockTable, bool) {
	for _, e := range env {
		if name, ok := strings.CutPrefix(e, clockEnv+"="); ok {
			return clockTable(name), true
		}
	}
	return "", false
}

// set makes the clock of a process be off by d.
func (t clockTable) set(pid int, d time.Duration) error {
	f, err := os.OpenFile(string(t), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	b := binary.NativeEndian.AppendUint64(nil, uint64(d)) //nolint:gosec // the same 64 bits
	_, err = f.WriteAt(b, int64(pid%clockSlots)*8)
	return errors.Join(err, f.Close())
}

// processDir returns a new directory that ends with this process: a fault is prepared before there is a
// rig that could clean up.
func processDir() (dir string, err error) {
	defer func() {
		switch v := recover().(type) {
		case nil:
		case noDir:
			err = v.error
		default:
			panic(v)
		}
	}()
	return testenv.TempDir(wholeProcess{}), nil
}

// wholeProcess is the testenv.TB of what lasts as long as the process.
type wholeProcess struct{}

// noDir is what its Fatalf panics with.
type noDir struct{ error }

func (wholeProcess) Helper()                           {}
func (wholeProcess) Cleanup(func())                    {} // testenv removes it
func (wholeProcess) Failed() bool                      { return false }
func (wholeProcess) Logf(string, ...any)               {}
func (wholeProcess) Errorf(string, ...any)             {}
func (wholeProcess) Fatalf(format string, args ...any) { panic(noDir{fmt.Errorf(format, args...)}) }
func (w wholeProcess) Skipf(format string, args ...any) {
	w.Fatalf(format, args...)
}
