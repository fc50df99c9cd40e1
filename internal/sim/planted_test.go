package sim_test

import (
	"strings"
	"testing"
)

// planted is a bug that is put into the world, to see that the rules notice.
type planted string

const (
	none           planted = ""
	noRaise        planted = "the raise at the grant is left out"
	retireLost     planted = "a retire is acknowledged and not done"
	evictLost      planted = "an evict is acknowledged and not done"
	noGrantCompare planted = "the data store compares numbers only"
	acceptsStale   planted = "the data store accepts stale tokens"
	checkThenWrite planted = "check and write are two steps"
	fenceFirst     planted = "the fence is judged before the idempotency record"
	keyForgotten   planted = "the idempotency record is not looked up"
	raiseAgain     planted = "a raise whose reply was lost is sent again"
	trustFromReply planted = "trust counts from the reply"
	renewRevives   planted = "a renewal revives a hold that has expired"
	releaseAnyones planted = "a release frees whoever holds the lock"
	counterDies    planted = "the counter expires with the lock"
	expiresEarly   planted = "a hold ends before its time"
)

// shape makes runs in which the bug can show: it is in the simulated lock store, or wants a certain
// kind of fault, which most seeds do not have.
func (p planted) shape(w *profile) {
	switch p {
	case renewRevives, releaseAnyones, counterDies, expiresEarly:
		w.line = false
	case raiseAgain:
		w.crashes, w.outage, w.older, w.late = 8, 1, true, 0.4
		w.lose, w.slow, w.cuts, w.evictions = 0, 0, 0, 0
	}
}

// finds says which rule finds a bug, and by which seed at the latest.
type finds struct {
	rule   string
	within uint64
}

var bugs = map[planted]finds{
	noRaise:        {"INV5", 1000},
	retireLost:     {"a ", 1000},
	evictLost:      {"a ", 1000},
	noGrantCompare: {"INV1", 1000},
	acceptsStale:   {"INV2", 1000},
	checkThenWrite: {"INV", 1000},
	fenceFirst:     {"INV6", 1000},
	keyForgotten:   {"INV", 1000},
	raiseAgain:     {"INV5", 20000},
	trustFromReply: {"trust", 1000},
	renewRevives:   {"INV11", 1000},
	releaseAnyones: {"INV11", 1000},
	counterDies:    {"INV9", 1000},
	expiresEarly:   {"trust", 1000},
}

// TestPlanted: the rules of TestLocker find each planted bug.
func TestPlanted(t *testing.T) {
	t.Parallel()
	for bug, want := range bugs {
		t.Run(string(bug), func(t *testing.T) {
			t.Parallel()
			find(t, bug, want, simulate)
		})
	}
}

// find runs a simulation with a planted bug, seed after seed, until its rule finds it.
func find(t *testing.T, bug planted, want finds, one func(t *testing.T, seed uint64, bug planted) result) {
	t.Helper()
	for seed := uint64(1); seed <= want.within; seed++ {
		if r := one(t, seed, bug); strings.HasPrefix(r.violated, want.rule) {
			t.Logf("seed %d: %s", seed, r.violated)
			return
		}
	}
	t.Errorf("not found in %d seeds", want.within)
}
