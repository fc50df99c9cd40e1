package storagetest_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
)

// recorder is a testing.TB for a scenario that is to fail.
type recorder struct {
	testing.TB // for its unexported method
	ctx        context.Context
	mu         sync.Mutex // guards texts and skipped
	texts      []string
	skipped    bool
}

func (r *recorder) Helper()                  {}
func (r *recorder) Name() string             { return "recorded" }
func (r *recorder) Context() context.Context { return r.ctx }
func (r *recorder) Log(...any)               {}
func (r *recorder) Logf(string, ...any)      {}

func (r *recorder) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.texts) > 0
}

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.texts = append(r.texts, fmt.Sprintf(format, args...))
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

func (r *recorder) Fatal(args ...any) { r.Fatalf("%s", fmt.Sprint(args...)) }

func (r *recorder) Skip(...any) {
	r.mu.Lock()
	r.skipped = true
	r.mu.Unlock()
	runtime.Goexit()
}

// record runs f to its end or its Fatal, and returns what it complained of.
func record(t *testing.T, f func(tb testing.TB)) *recorder {
	r := &recorder{TB: t, ctx: t.Context()}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(r)
	}()
	<-done
	return r
}
