package measure_test

import (
	"context"
	"errors"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/fencegate/fencegate/internal/bench/measure"
)

func TestJain(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		shares []float64
		want   float64
	}{
		{[]float64{1, 1, 1, 1}, 1},
		{[]float64{7, 7}, 1},
		{[]float64{1, 0, 0, 0}, 0.25},
		{[]float64{1, 1, 0, 0}, 0.5},
	} {
		if got := measure.Jain(test.shares); math.Abs(got-test.want) > 1e-9 {
			t.Errorf("Jain(%v) = %v, want %v", test.shares, got, test.want)
		}
	}
}

func TestQuantiles(t *testing.T) {
	t.Parallel()
	samples := []float64{5, 1, 4, 2, 3}
	if got := measure.Quantile(samples, 0.25); got != 2 {
		t.Errorf("p25 = %v, want 2", got)
	}
	if got := measure.Median([]float64{4, 1, 2, 3}); got != 2.5 {
		t.Errorf("median = %v, want 2.5", got)
	}
	if got := measure.Median(nil); !math.IsNaN(got) {
		t.Errorf("median of nothing = %v, want NaN", got)
	}
}

// The order is a, b, b, a, and Undo follows its own Do.
func TestPairedAlternates(t *testing.T) {
	t.Parallel()
	order := ""
	step := func(name string) measure.Step {
		return measure.Step{
			Do:   func(context.Context, int) error { order += name; return nil },
			Undo: func(context.Context, int) error { order += "'"; return nil },
		}
	}
	if _, err := measure.Paired(t.Context(), 2, 0.25, step("a"), step("b")); err != nil {
		t.Fatal(err)
	}
	if want := "a'b'b'a'"; order != want {
		t.Errorf("order = %s, want %s", order, want)
	}
}

func TestRateEndsWithAnError(t *testing.T) {
	t.Parallel()
	want := errors.New("broken")
	_, err := measure.Rate(t.Context(), 4, time.Hour, func(_ context.Context, worker int) error {
		if worker == 2 {
			return want
		}
		return nil
	})
	if !errors.Is(err, want) {
		t.Errorf("err = %v, want %v", err, want)
	}
}

// line is a lock that serves in the order of arrival, or the last one first.
type line struct {
	mu      sync.Mutex
	held    bool
	waiting []chan struct{}
	lifo    bool
}

func (l *line) lock(context.Context, int) (func() error, error) {
	l.mu.Lock()
	if !l.held {
		l.held = true
		l.mu.Unlock()
		return l.unlock, nil
	}
	turn := make(chan struct{})
	l.waiting = append(l.waiting, turn)
	l.mu.Unlock()
	<-turn
	return l.unlock, nil
}

func (l *line) unlock() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(l.waiting)
	switch {
	case n == 0:
		l.held = false
	case l.lifo:
		close(l.waiting[n-1])
		l.waiting = l.waiting[:n-1]
	default:
		close(l.waiting[0])
		l.waiting = l.waiting[1:]
	}
	return nil
}

func TestBurstTellsFairFromUnfair(t *testing.T) {
	t.Parallel()
	for _, lifo := range []bool{false, true} {
		l := &line{lifo: lifo}
		last := 0
		got, err := measure.Burst{
			Waiters: 16, Spacing: 5 * time.Millisecond, Settle: 5 * time.Millisecond,
			Lock: l.lock, Granted: func() { last++ },
		}.Drain(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if fair := got.Jain > 0.9; fair == lifo {
			t.Errorf("lifo %v: Jain = %v", lifo, got.Jain)
		}
		if got.Rate <= 0 || last != 1 {
			t.Errorf("rate = %v, last grants = %d, want one", got.Rate, last)
		}
	}
}

func TestBurstThatHangs(t *testing.T) {
	t.Parallel()
	_, err := measure.Burst{Waiters: 2, Limit: 20 * time.Millisecond, Lock: func(ctx context.Context, waiter int) (func() error, error) {
		if waiter == 1 {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		return func() error { return nil }, nil
	}}.Drain(t.Context())
	if !errors.Is(err, measure.ErrHung) {
		t.Errorf("err = %v, want ErrHung", err)
	}
}
