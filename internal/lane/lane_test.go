package lane_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/lane"
)

type result struct {
	value int
	err   error
}

func gone(err error) result { return result{err: err} }

// gate is a Run that waits before take, and again before it answers, until it is let go.
type gate struct {
	begin, end chan struct{}
	mu         sync.Mutex
	batches    [][]int
}

func newGate() *gate { return &gate{begin: make(chan struct{}), end: make(chan struct{})} }

func (g *gate) run(take func() []int) []result {
	<-g.begin
	batch := take()
	<-g.end
	g.mu.Lock()
	defer g.mu.Unlock()
	g.batches = append(g.batches, batch)
	out := make([]result, len(batch))
	for i, v := range batch {
		out[i] = result{value: v * 10}
	}
	return out
}

func TestBatches(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		l := lane.New(3, g.run, gone)
		var wg sync.WaitGroup
		for i := range 5 {
			wg.Go(func() {
				if got := l.Do(t.Context(), i); got[0] != (result{value: i * 10}) {
					t.Errorf("Do(%d) = %v", i, got)
				}
			})
			synctest.Wait() // so that they come in order
		}
		for range 2 {
			g.begin <- struct{}{}
			g.end <- struct{}{}
		}
		wg.Wait()
		if got, want := fmt.Sprint(g.batches), "[[0 1 2] [3 4]]"; got != want {
			t.Errorf("batches = %s, want %s", got, want)
		}
		l.Close() // and the bubble ends only when no goroutine is left
	})
}

func TestSeveralValuesOfOneCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		close(g.begin)
		close(g.end)
		l := lane.New(2, g.run, gone)
		got := l.Do(t.Context(), 1, 2, 3)
		if want := []result{{value: 10}, {value: 20}, {value: 30}}; !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		if got := l.Do(t.Context()); len(got) != 0 {
			t.Errorf("nothing in, %v out", got)
		}
	})
}

func TestContextEndsInLine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		l := lane.New(10, g.run, gone)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			got := l.Do(ctx, 1, 2)
			for _, r := range got {
				if !errors.Is(r.err, fencing.ErrFailed) || !errors.Is(r.err, context.Canceled) {
					t.Errorf("withdrawn: %v, want failed", r.err)
				}
			}
		})
		synctest.Wait()
		wg.Go(func() {
			if got := l.Do(t.Context(), 3); got[0] != (result{value: 30}) {
				t.Errorf("the other one: %v", got)
			}
		})
		synctest.Wait()
		cancel()
		synctest.Wait()
		g.begin <- struct{}{}
		g.end <- struct{}{}
		wg.Wait()
		if got, want := fmt.Sprint(g.batches), "[[3]]"; got != want {
			t.Errorf("batches = %s, want %s: what failed must never be taken", got, want)
		}
	})
}

func TestContextEndsInFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		l := lane.New(10, g.run, gone)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if r := l.Do(ctx, 1)[0]; !errors.Is(r.err, fencing.ErrUnknown) || errors.Is(r.err, fencing.ErrFailed) {
				t.Errorf("in flight: %v, want unknown", r.err)
			}
		})
		synctest.Wait()
		g.begin <- struct{}{}
		synctest.Wait()
		cancel()
		wg.Wait() // before the batch has ended
		g.end <- struct{}{}
	})
}

func TestEverybodyLeaves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		l := lane.New(10, g.run, gone)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { l.Do(ctx, 1) })
		synctest.Wait()
		cancel()
		wg.Wait()
		g.begin <- struct{}{}
		g.end <- struct{}{}
		l.Close()
		if got := fmt.Sprint(g.batches); got != "[[]]" {
			t.Errorf("batches = %s, want one empty", got)
		}
	})
}

func TestClose(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		l := lane.New(1, g.run, gone)
		var wg sync.WaitGroup
		for i := range 3 {
			wg.Go(func() {
				if r := l.Do(t.Context(), i)[0]; r.err != nil {
					t.Errorf("in line before Close: %v", r.err)
				}
			})
		}
		synctest.Wait()
		closed := make(chan struct{})
		go func() { l.Close(); close(closed) }()
		synctest.Wait()
		if r := l.Do(t.Context(), 9)[0]; !errors.Is(r.err, lane.ErrClosed) || !errors.Is(r.err, fencing.ErrFailed) {
			t.Errorf("after Close: %v, want ErrClosed, failed", r.err)
		}
		for range 3 {
			select {
			case <-closed:
				t.Error("Close returned before those in line were answered")
			default:
			}
			g.begin <- struct{}{}
			g.end <- struct{}{}
			synctest.Wait()
		}
		wg.Wait()
		<-closed
	})
}

// TestEnter: who finds the lane empty has it to itself. What comes meanwhile is one batch, when the
// visitor leaves, or when patience ends.
func TestEnter(t *testing.T) {
	t.Parallel()
	for _, stays := range []time.Duration{time.Millisecond, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			var batches []int
			l := lane.New(10, func(take func() []int) []result {
				batch := take()
				batches = append(batches, len(batch))
				return make([]result, len(batch))
			}, gone)
			visit := l.Enter(time.Second)
			if visit == 0 || l.Enter(time.Second) != 0 || l.Idle() {
				t.Error("the lane was had by nobody, or by two")
			}
			began := time.Now()
			var wg sync.WaitGroup
			for i := range 3 {
				wg.Go(func() { l.Do(t.Context(), i) })
			}
			synctest.Wait()
			if got := l.Waiting(); got != 3 {
				t.Errorf("%d wait, want 3", got)
			}
			wg.Go(func() {
				time.Sleep(stays)
				l.Leave(visit) // late: it must not let anybody in a second time
			})
			time.Sleep(2 * time.Second)
			synctest.Wait()
			if fmt.Sprint(batches) != "[3]" {
				t.Errorf("after %v: got batches of %v, want one of 3", time.Since(began), batches)
			}
			second := l.Enter(time.Second)
			if second == 0 {
				t.Error("the lane is not empty after its batch")
			}
			l.Leave(visit)
			if l.Idle() {
				t.Error("who had left already let another visitor out")
			}
			l.Leave(second)
			l.Leave(second)
			wg.Wait()
			l.Close()
			if l.Enter(time.Second) != 0 {
				t.Error("a closed lane was entered")
			}
		})
	}
}

// TestMany is for the race detector: every item is answered once, with its own result.
func TestMany(t *testing.T) {
	t.Parallel()
	l := lane.New(16, func(take func() []int) []result {
		var out []result
		for _, v := range take() {
			out = append(out, result{value: v * 10})
		}
		return out
	}, gone)
	var wg sync.WaitGroup
	for i := range 2000 {
		wg.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			if i%3 == 0 {
				go cancel()
			}
			defer cancel()
			if r := l.Do(ctx, i)[0]; r.err == nil && r.value != i*10 {
				t.Errorf("Do(%d) = %d", i, r.value)
			}
		})
	}
	wg.Wait()
	l.Close()
}

// TestVisitorStays: where those who came have all gone again before patience ended, the visitor still
// has the lane for itself. Who comes then waits for as long as patience says.
func TestVisitorStays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := lane.New(10, func(take func() []int) []result { return make([]result, len(take())) }, gone)
		visit := l.Enter(time.Second)
		short, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		if r := l.Do(short, 1)[0]; !errors.Is(r.err, fencing.ErrFailed) {
			t.Errorf("who went: got %v, want failed", r.err)
		}
		time.Sleep(2 * time.Second)
		l.Leave(0) // what Enter says where the lane was not to be had
		if l.Idle() || l.Enter(time.Second) != 0 {
			t.Error("a second visitor came in beside the first one")
		}
		began := time.Now()
		if r := l.Do(t.Context(), 2)[0]; r.err != nil || time.Since(began) != time.Second {
			t.Errorf("who stayed: got %v after %v, want an answer after 1s", r.err, time.Since(began))
		}
		l.Leave(visit)

		visit = l.Enter(time.Second)
		short, cancel = context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		l.Do(short, 3)
		time.Sleep(2 * time.Second)
		closed := make(chan struct{})
		go func() { l.Close(); close(closed) }()
		synctest.Wait()
		select {
		case <-closed:
			t.Error("Close returned while a visitor was in the lane")
		default:
		}
		l.Leave(visit)
		<-closed
	})
}

// TestLeaveNothing: Leave(0) does not end a batch.
func TestLeaveNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		l := lane.New(10, g.run, gone)
		var wg sync.WaitGroup
		wg.Go(func() { l.Do(t.Context(), 1) })
		synctest.Wait()
		g.begin <- struct{}{}
		synctest.Wait()
		l.Leave(l.Enter(time.Second))
		if l.Idle() {
			t.Error("the batch was ended by who was not in the lane")
		}
		g.end <- struct{}{}
		wg.Wait()
		l.Close()
	})
}

// TestNothingIsKept: what went through the lane is not kept alive by it.
func TestNothingIsKept(t *testing.T) {
	t.Parallel()
	l := lane.New(4, func(take func() []*[]byte) []result { return make([]result, len(take())) }, gone)
	var kept []weak.Pointer[[]byte]
	for range 3 {
		values := make([]*[]byte, 10)
		for i := range values {
			values[i] = new([]byte)
			kept = append(kept, weak.Make(values[i]))
		}
		l.Do(t.Context(), values...)
	}
	runtime.GC()
	for i, p := range kept {
		if p.Value() != nil {
			t.Errorf("value %d is still there", i)
		}
	}
	runtime.KeepAlive(l)
}
