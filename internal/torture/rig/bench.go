package rig

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/fencegate/fencegate/internal/testenv"
)

// bench is the testenv.TB of a Rig, which is no test. Its methods are safe for concurrent use.
type bench struct {
	mu       sync.Mutex // guards the fields below
	cleanups []func()
	wrong    []error // what Errorf was told
}

var _ testenv.TB = (*bench)(nil)

// ended is what Fatalf and Skipf panic with. Nobody else can.
type ended struct{ err error }

// Helper implements testenv.TB.
func (*bench) Helper() {}

// Failed implements testenv.TB: the logs of servers are of no interest, what fails comes with its part of them.
func (*bench) Failed() bool { return false }

// Logf implements testenv.TB.
func (*bench) Logf(string, ...any) {}

// Errorf implements testenv.TB.
func (b *bench) Errorf(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wrong = append(b.wrong, fmt.Errorf(format, args...))
}

// Fatalf implements testenv.TB.
func (*bench) Fatalf(format string, args ...any) { panic(ended{fmt.Errorf(format, args...)}) }

// Skipf implements testenv.TB: a test is skipped where a machine cannot do something.
func (*bench) Skipf(format string, args ...any) {
	panic(ended{&CannotError{Why: fmt.Sprintf(format, args...)}})
}

// Cleanup implements testenv.TB.
func (b *bench) Cleanup(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cleanups = append(b.cleanups, f)
}

// try calls f, and returns what would have ended a test.
func (b *bench) try(f func()) (err error) {
	defer func() {
		switch v := recover().(type) {
		case nil:
		case ended:
			err = v.err
		default:
			panic(v)
		}
	}()
	f()
	return nil
}

// all calls several functions like f of try at once.
func (b *bench) all(fs ...func()) error {
	errs := make([]error, len(fs))
	var wg sync.WaitGroup
	for i, f := range fs {
		wg.Go(func() { errs[i] = b.try(f) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// close calls the cleanups, the last one first.
func (b *bench) close() error {
	var errs []error
	for {
		b.mu.Lock()
		list := b.cleanups
		b.cleanups = nil
		b.mu.Unlock()
		if len(list) == 0 {
			break
		}
		for _, f := range slices.Backward(list) {
			errs = append(errs, b.try(f))
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	errs = append(errs, b.wrong...)
	b.wrong = nil
	return errors.Join(errs...)
}

// Try calls f, which uses methods of package testenv, and returns as an error what would have
// ended a test. It is safe for concurrent use.
func (r *Rig) Try(f func()) error { return r.tb.try(f) }
