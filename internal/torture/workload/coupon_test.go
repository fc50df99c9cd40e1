package workload_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fencegate/fencegate/internal/torture/check"
	"github.com/fencegate/fencegate/internal/torture/history"
	"github.com/fencegate/fencegate/internal/torture/workload"
	"github.com/fencegate/fencegate/storage"
)

// TestSoldOut: in every third group the coupons run out. The data refuses then, under a key, also where the
// answer to an attempt was lost; and leases that are left on purpose say so.
func TestSoldOut(t *testing.T) {
	t.Parallel()
	a := access(t, func(s *storage.Store) workload.Store { return lossy{s, 0.3} })
	w, _ := workload.Named("coupon")
	h := &history.History{Began: history.Now(), FinalRead: true, Direct: true}
	for i, want := range []string{"1000000", "1000000", "60"} {
		cells := seed(t, w, a, w.Resources("", i))
		if len(cells) != 1 || cells[0].Value != want {
			t.Errorf("group %d begins with %v, want %s", i, cells, want)
		}
	}
	group := w.Resources("run", 5)
	h.Initial = seed(t, w, a, group)
	b, n := newBook(), 0
	s := &workload.Seat{
		Access: a, Process: 1, Options: options, Rand: rand.New(rand.NewPCG(3, 1)), Log: b.log,
		Next: func() string { n++; return fmt.Sprintf("1.%d", n) },
	}
	resolved, left := 0, 0
	for end := time.Now().Add(time.Minute); (resolved < 3 || left == 0) && time.Now().Before(end); {
		w.Turn(t.Context(), s, group)
		resolved, left = 0, 0
		open := make(map[string]bool) // keys of which an attempt was unknown
		for _, op := range b.all() {
			if op.Left {
				left++
			}
			if open[op.Key] && op.Reason == "below-minimum" {
				resolved++
			}
			open[op.Key] = op.Key != "" && op.Outcome == "unknown"
			if op.Left && op.Kind != history.Acquire {
				t.Fatalf("%s, a %s, was left", op.ID, op.Kind)
			}
		}
	}
	if resolved < 3 || left == 0 {
		t.Errorf("%d attempts were asked again and sold out, %d leases were left", resolved, left)
	}
	var err error
	if h.Final, err = w.Final(t.Context(), a, group); err != nil {
		t.Fatal(err)
	}
	if len(h.Final) != 61 {
		t.Errorf("%d records are there in the end, want the stock and 60 receipts", len(h.Final))
	}
	h.Ended, h.Ops = history.Now(), b.all()
	for _, v := range check.Check(h, nil).Violations {
		t.Errorf("%s %s %s: %s %v", v.Invariant, v.Check, v.Group, v.Text, v.Ops)
	}
}
