package story_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/fencegate/fencegate/internal/story"
	"github.com/fencegate/fencegate/internal/trace"
	"github.com/fencegate/fencegate/locking/memlock"
	"github.com/fencegate/fencegate/storage/memstore"
)

// TestTrace: the record of each telling has its rules, its account, a mark that only rises, a sentence for
// everything that happened, and tells of damage where a coupon is not accounted for, and nowhere else.
func TestTrace(t *testing.T) {
	t.Parallel()
	rules := map[string]string{"none": "none", "lock": "lock", "fence": "grant", "gap-writes": "writes", "gap-grant": "grant"}
	setup := story.Setup{Lock: memlock.New(), Store: memstore.New(nil), TTL: 200 * time.Millisecond, Start: inProcesses}
	for _, mode := range story.Modes() {
		res, err := story.Run(t.Context(), setup, mode)
		if err != nil {
			t.Fatal(err)
		}
		run := story.Trace("memory", "memory", []story.Result{res}).Runs[0]
		if run.Name != mode.Name || run.Mode != rules[mode.Name] || run.Account.Held != res.Held() || run.Account.Remaining != strconv.FormatInt(res.Remaining, 10) {
			t.Errorf("%s: got %+v", mode.Name, run)
		}
		mark, damages, granted, refused := int64(0), 0, 0, 0
		for i, e := range run.Events {
			if e.Seq != i+1 || e.Text == "" || e.DoneMS < e.AtMS || i > 0 && e.DoneMS < run.Events[i-1].DoneMS {
				t.Errorf("%s: got %+v", mode.Name, e)
			}
			for _, m := range e.Marks {
				n, err := strconv.ParseInt(m.Number, 10, 64)
				if err != nil || n < mark {
					t.Errorf("%s: the mark is %q after %d", mode.Name, m.Number, mark)
				}
				mark = n
			}
			if e.Damage != "" {
				damages++
				if e.Action != "write" || e.Outcome != "accepted" {
					t.Errorf("%s: damage by %+v", mode.Name, e)
				}
			}
			if e.Outcome == "granted" {
				granted++
				if e.LeaseMS != 200 {
					t.Errorf("%s: a lease of %d ms, want 200", mode.Name, e.LeaseMS)
				}
			}
			if e.Reason == "superseded" && e.Highest != "" {
				refused++
			}
		}
		if res.Held() != (damages == 0) || damages > 1 {
			t.Errorf("%s: %d damages, and all accounted for: %t", mode.Name, damages, res.Held())
		}
		if granted != len(res.Tokens) || refused != res.Refused || mode.Locked && mark < 34 {
			t.Errorf("%s: %d grants, %d refused, mark %d; want %d, %d, and at least 34", mode.Name, granted, refused, mark, len(res.Tokens), res.Refused)
		}
	}
	f := story.Trace("redis", "postgres", nil)
	if f.Format != trace.Format || f.Version != trace.Version || f.Source != "demo" || f.Lock != "redis" || f.Store != "postgres" || f.Runs == nil {
		t.Errorf("got %+v", f)
	}
}
