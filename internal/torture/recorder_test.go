package torture_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/fencegate/fencegate/internal/torture"
	"github.com/fencegate/fencegate/internal/torture/fault"
	"github.com/fencegate/fencegate/internal/torture/history"
)

// TestRecovering: who was served is who was granted, and answered by the data, by calls that began after the healing.
func TestRecovering(t *testing.T) {
	t.Parallel()
	op := func(kind history.Kind, call, ret int64, outcome string) history.Op {
		return history.Op{ID: fmt.Sprint(kind, call), Process: 1, Group: "g", Kind: kind, Call: call, Return: ret, Outcome: outcome}
	}
	soldOut, once, ofTwo := op(history.Commit, 14, 15, "refused"), op(history.Commit, 12, 13, "applied"), op(history.Commit, 16, 17, "applied")
	soldOut.Reason, once.Once, ofTwo.Process = "below-minimum", true, 2
	for _, c := range []struct {
		name    string
		ops     []history.Op
		missing []string
		last    int64
	}{
		{"nobody", nil, []string{"client 1", "g"}, 0},
		{"granted only", []history.Op{op(history.Acquire, 12, 13, "applied")}, []string{"client 1", "g"}, 0},
		{"both", []history.Op{op(history.Acquire, 12, 13, "applied"), op(history.Commit, 14, 15, "applied")}, nil, 15},
		{"sold out", []history.Op{op(history.Acquire, 12, 13, "applied"), soldOut}, nil, 15},
		{"one call", []history.Op{once}, nil, 13},
		{"refused", []history.Op{op(history.Acquire, 12, 13, "applied"), op(history.Commit, 14, 15, "refused")}, []string{"client 1", "g"}, 0},
		{"sent before the healing", []history.Op{op(history.Acquire, 9, 13, "applied"), op(history.Commit, 14, 15, "applied")}, []string{"client 1", "g"}, 0},
		{"by another client", []history.Op{op(history.Acquire, 12, 13, "applied"), ofTwo}, []string{"client 1"}, 17},
	} {
		missing, last := torture.Recovering(10, []string{"g"}, []int{1}, c.ops...)
		if !slices.Equal(missing, c.missing) || last != c.last {
			t.Errorf("%s: %q are missing, the last at %d; want %q, %d", c.name, missing, last, c.missing, c.last)
		}
	}
}

// TestOnlyVoid: a machine that cannot make a fault excuses nothing else that went wrong.
func TestOnlyVoid(t *testing.T) {
	t.Parallel()
	void, other := fault.Void("no such thing"), errors.New("other")
	for _, c := range []struct {
		err  error
		want bool
	}{
		{void, true},
		{fmt.Errorf("healing: %w", void), true},
		{errors.Join(void, nil, void), true},
		{other, false},
		{errors.Join(void, other), false},
		{errors.Join(other, void), false},
	} {
		if got := torture.OnlyVoid(c.err); got != c.want {
			t.Errorf("%v: got %v, want %v", c.err, got, c.want)
		}
	}
}
