package sim_test

import (
	"slices"
	"testing"
)

// simulate is one run of Lockers, issuers, a lock store and a data store.
func simulate(t *testing.T, seed uint64, bug planted) result {
	t.Helper()
	var w *world
	r := inBubble(t, func(t *testing.T) result {
		w = newWorld(t, seed, bug)
		return w.run(t)
	})
	if r.log == nil {
		r.log = w.log.lines
	}
	return r
}

// TestLocker: whatever the network and the servers do, the rules hold.
//
//nolint:paralleltest // it takes all processors, one simulation after the other
func TestLocker(t *testing.T) {
	total := many(t, 0.6, func(t *testing.T, seed uint64) result { return simulate(t, seed, none) })
	if *seedFlag == 0 && (total.takeovers == 0 || total.refusals == 0 || total.unknowns == 0 || total.lost == 0 || total.reissues == 0) {
		t.Errorf("void: too little happened: %v", total)
	}
}

// TestSameSeed: a seed decides a run, so that one that failed can be looked at.
func TestSameSeed(t *testing.T) {
	t.Parallel()
	for seed := range uint64(100) {
		first, again := simulate(t, seed+1, none), simulate(t, seed+1, none)
		if !slices.Equal(first.log, again.log) {
			at := 0
			for at < min(len(first.log), len(again.log)) && first.log[at] == again.log[at] {
				at++
			}
			t.Errorf("seed %d: the runs differ at line %d:\n%q\n%q", seed+1, at, first.log[at:min(at+3, len(first.log))], again.log[at:min(at+3, len(again.log))])
		}
	}
}
