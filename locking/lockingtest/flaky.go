package lockingtest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/locking"
)

// Fault is what becomes of one call.
type Fault int

// The faults.
const (
	None       Fault = iota
	FailBefore       // the call is not carried out: fencing.ErrFailed
	LoseCall         // the call is not carried out, and the caller cannot know: fencing.ErrUnknown
	LoseReply        // the call is carried out, and the caller cannot know: fencing.ErrUnknown
	Hang             // the call is not carried out and does not return before its context ends
)

var errFlaky = errors.New("flaky on purpose")

// Faults is a script of faults by method name: each call of a method uses up the first of
// its list. It is safe for concurrent use. The zero value has none.
type Faults struct {
	mu    sync.Mutex // guards what follows
	next  map[string][]Fault
	calls map[string]int
}

// On appends faults for the next calls of a method.
func (f *Faults) On(method string, faults ...Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.next == nil {
		f.next = map[string][]Fault{}
	}
	f.next[method] = append(f.next[method], faults...)
}

// Calls returns how often a method was called, carried out or not.
func (f *Faults) Calls(method string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[method]
}

// around carries out one call of method as its next fault says.
func (f *Faults) around(ctx context.Context, method string, call func() error) error {
	f.mu.Lock()
	if f.calls == nil {
		f.calls = map[string]int{}
	}
	f.calls[method]++
	fault := None
	if list := f.next[method]; len(list) > 0 {
		fault, f.next[method] = list[0], list[1:]
	}
	f.mu.Unlock()
	switch fault {
	case FailBefore:
		return fencing.AsFailed(errFlaky)
	case LoseCall:
		return fencing.AsUnknown(errFlaky)
	case LoseReply:
		_ = call()
		return fencing.AsUnknown(errFlaky)
	case Hang:
		<-ctx.Done()
		return fencing.AsUnknown(ctx.Err())
	}
	return call()
}

// Flaky is a lock store that fails before, fails after, or hangs, as its Faults say.
type Flaky struct {
	locking.Backend
	Faults
}

var _ locking.Backend = (*Flaky)(nil)

// TryAcquire implements locking.Backend.
func (f *Flaky) TryAcquire(ctx context.Context, r locking.Request) (h locking.Hold, err error) {
	err = f.around(ctx, "TryAcquire", func() (err error) { h, err = f.Backend.TryAcquire(ctx, r); return err })
	if err != nil {
		return locking.Hold{}, err
	}
	return h, nil
}

// Renew implements locking.Backend.
func (f *Flaky) Renew(ctx context.Context, ttl time.Duration, held []fencing.Token) []error {
	var verdicts []error
	err := f.around(ctx, "Renew", func() error { verdicts = f.Backend.Renew(ctx, ttl, held); return nil })
	if err != nil {
		verdicts = make([]error, len(held))
		for i := range verdicts {
			verdicts[i] = err
		}
	}
	return verdicts
}

// Release implements locking.Backend.
func (f *Flaky) Release(ctx context.Context, t fencing.Token) (freed bool, err error) {
	err = f.around(ctx, "Release", func() (err error) { freed, err = f.Backend.Release(ctx, t); return err })
	return freed && err == nil, err
}

// Evict implements locking.Backend.
func (f *Flaky) Evict(ctx context.Context, resource string, number int64) error {
	return f.around(ctx, "Evict", func() error { return f.Backend.Evict(ctx, resource, number) })
}

// FlakyFence is a store's fence that fails before, fails after, or hangs. It keeps the
// raises that it carried out or was sent.
type FlakyFence struct {
	fencing.Fence
	Faults

	sentMu sync.Mutex // guards sent
	sent   []fencing.Token
}

var _ fencing.Fence = (*FlakyFence)(nil)

// Raised returns the tokens of every Raise that was sent, carried out or not.
func (f *FlakyFence) Raised() []fencing.Token {
	f.sentMu.Lock()
	defer f.sentMu.Unlock()
	return append([]fencing.Token(nil), f.sent...)
}

// Raise implements fencing.Fence.
func (f *FlakyFence) Raise(ctx context.Context, t fencing.Token) error {
	f.sentMu.Lock()
	f.sent = append(f.sent, t)
	f.sentMu.Unlock()
	return f.around(ctx, "Raise", func() error { return f.Fence.Raise(ctx, t) })
}

// Retire implements fencing.Fence.
func (f *FlakyFence) Retire(ctx context.Context, t fencing.Token) error {
	return f.around(ctx, "Retire", func() error { return f.Fence.Retire(ctx, t) })
}

// Evict implements fencing.Fence.
func (f *FlakyFence) Evict(ctx context.Context, t fencing.Token) error {
	return f.around(ctx, "Evict", func() error { return f.Fence.Evict(ctx, t) })
}

// Mark implements fencing.Fence.
func (f *FlakyFence) Mark(ctx context.Context, resource string) (m fencing.Mark, err error) {
	err = f.around(ctx, "Mark", func() (err error) { m, err = f.Fence.Mark(ctx, resource); return err })
	return m, err
}
