package sim_test

import (
	"flag"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

var (
	seedsFlag   = flag.Int("seeds", defaultSeeds, "how many runs, over all simulations")
	seedFlag    = flag.Uint64("seed", 0, "run this seed only, and print its event log with -v; not 0")
	minutesFlag = flag.Float64("minutes", 0, "run for so long instead of -seeds, each simulation for its share")
)

// result is what one run came to.
type result struct {
	log      []string
	violated string // the first rule that did not hold, and how; empty if all did
	counts   counts
}

// counts says how much happened in runs. One in which nothing went wrong shows nothing.
type counts struct {
	leases, writes, refusals, takeovers, unknowns, reissues, lost, failures int
}

func (c *counts) add(d counts) {
	c.leases += d.leases
	c.writes += d.writes
	c.refusals += d.refusals
	c.takeovers += d.takeovers
	c.unknowns += d.unknowns
	c.reissues += d.reissues
	c.lost += d.lost
	c.failures += d.failures
}

func (c counts) String() string {
	return fmt.Sprintf("%d leases, %d taken over, %d lost, %d re-issued; %d writes, %d refused, %d unknown, %d failed",
		c.leases, c.takeovers, c.lost, c.reissues, c.writes, c.refusals, c.unknowns, c.failures)
}

// inBubble runs fn with virtual time. What is left over when it ends, a goroutine that waits for
// ever, is a violation, and so is a panic.
func inBubble(t *testing.T, fn func(t *testing.T) result) (r result) {
	t.Helper()
	defer func() {
		if p := recover(); p != nil && r.violated == "" {
			r.violated = fmt.Sprintf("INV13: something is left over when all have gone: %v", p)
		}
	}()
	synctest.Test(t, func(t *testing.T) { r = fn(t) })
	return r
}

// many runs a simulation with the seeds of its share, or with the one that was asked for, on all
// processors. The first violation ends it.
func many(t *testing.T, share float64, one func(t *testing.T, seed uint64) result) counts {
	t.Helper()
	if *seedFlag != 0 {
		r := one(t, *seedFlag)
		t.Log(strings.Join(r.log, "\n"))
		if r.violated != "" {
			t.Error(r.violated)
		}
		return r.counts
	}
	most := uint64(max(1, float64(*seedsFlag)*share))
	begun := time.Now()
	var next atomic.Uint64
	more := func() bool { return next.Load() < most }
	if *minutesFlag > 0 {
		end := begun.Add(time.Duration(*minutesFlag * share * float64(time.Minute)))
		more = func() bool { return time.Now().Before(end) }
	}
	var mu sync.Mutex // guards what follows
	var total counts
	failed := false
	t.Run("seeds", func(t *testing.T) {
		for w := range runtime.GOMAXPROCS(0) {
			t.Run(fmt.Sprint(w), func(t *testing.T) {
				t.Parallel()
				for more() {
					seed := next.Add(1)
					r := one(t, seed)
					mu.Lock()
					total.add(r.counts)
					if r.violated != "" && !failed {
						failed = true
						most = 0
						t.Errorf("seed %d: %s\n%s\nagain: go test ./internal/sim -run '^%s$' -seed %d -v",
							seed, r.violated, strings.Join(r.log, "\n"), base(t.Name()), seed)
					}
					stop := failed
					mu.Unlock()
					if stop {
						return
					}
				}
			})
		}
	})
	took := time.Since(begun)
	t.Logf("%d seeds in %v, %.0f a second: %v", next.Load(), took.Round(time.Millisecond), float64(next.Load())/took.Seconds(), total)
	return total
}

func base(name string) string {
	top, _, _ := strings.Cut(name, "/")
	return top
}
