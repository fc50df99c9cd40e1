package fencingtest_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/fencing/fencingtest"
)

// rule is the Go rule over a map: the table's first subject.
type rule struct {
	mu    sync.Mutex
	mode  fencing.Mode
	floor int64
	marks map[string]fencing.Mark
}

func (r *rule) change(t fencing.Token, op func(fencing.Mark) (fencing.Mark, error)) error {
	if err := t.Validate(); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	m, ok := r.marks[t.Resource]
	if !ok {
		m = fencing.Absent(r.floor)
	}
	after, err := op(m)
	if err == nil && after != m {
		r.marks[t.Resource] = after
	}
	return err
}

func (r *rule) Use(_ context.Context, t fencing.Token) error {
	return r.change(t, func(m fencing.Mark) (fencing.Mark, error) {
		if err := m.Check(t, r.mode); err != nil {
			return m, err
		}
		return m.Raise(t)
	})
}

func (r *rule) Raise(_ context.Context, t fencing.Token) error {
	return r.change(t, func(m fencing.Mark) (fencing.Mark, error) {
		if r.mode == fencing.Strict && t.Grant == "" {
			return m, m.Check(t, r.mode)
		}
		return m.Raise(t)
	})
}

func (r *rule) Retire(_ context.Context, t fencing.Token) error {
	return r.change(t, func(m fencing.Mark) (fencing.Mark, error) { return m.Retire(t), nil })
}

func (r *rule) Evict(_ context.Context, t fencing.Token) error {
	return r.change(t, func(m fencing.Mark) (fencing.Mark, error) { return m.Evict(t), nil })
}

func (r *rule) Mark(_ context.Context, resource string) (fencing.Mark, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m, ok := r.marks[resource]; ok {
		return m, nil
	}
	return fencing.Absent(r.floor), nil
}

func TestGoRule(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	fencingtest.Run(t, fencingtest.Harness{
		New: func(_ testing.TB, mode fencing.Mode) fencingtest.Subject {
			return &rule{mode: mode, marks: map[string]fencing.Mark{}}
		},
		Set: func(_ testing.TB, s fencingtest.Subject, resource string, state fencingtest.State) {
			r := s.(*rule)
			r.floor = state.Floor
			if !state.Absent {
				r.marks[resource] = state.Seen()
			}
		},
		Unique: func(_ testing.TB, prefix string) string { return fmt.Sprintf("%s:%d", prefix, n.Add(1)) },
		Floors: true, Incarnations: true,
	})
}
