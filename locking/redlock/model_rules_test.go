package redlock_test

import (
	"os"
	"sync"
	"testing"
)

// ours is what the package does.
var ours = rules{confirm: true, check: true, onlyS: true, exact: true}

func with(change func(*rules)) rules {
	r := ours
	change(&r)
	return r
}

// The weaker rules, each with a shortest counterexample, and how high counters may be at the
// beginning. In all of them but the first two the lock is looked at.
var weaker = map[string]rules{
	"max of a majority":                       with(func(r *rules) { r.confirm = false }),
	"write-back without checking the lock":    with(func(r *rules) { r.check = false }),
	"write-back where late grants count":      with(func(r *rules) { r.onlyS = false }),
	"a re-sent request":                       with(func(r *rules) { r.duplic, r.exact = 1, false }),
	"a node back empty":                       with(func(r *rules) { r.loss, r.back = 1, true }),
	"a node back empty after waiting a TTL":   with(func(r *rules) { r.loss, r.admit, r.wait = 1, true, true }),
	"a node admitted with one peer's counter": with(func(r *rules) { r.loss, r.admit, r.wait, r.peers = 1, true, true, 1 }),
}

// found is what an exploration found: how many states there are and, if there is a
// violation, where the shortest way to one begins and its steps.
type found struct {
	states int
	start  state
	trace  []step
}

var explored sync.Map // of sync.OnceValue, by rules and bounds

// counterexample explores what was not explored before in this run of the tests.
func counterexample(r rules, highest int8) found {
	type key struct {
		r       rules
		highest int8
	}
	once, _ := explored.LoadOrStore(key{r, highest}, sync.OnceValue(func() found { return explore(r, 2, highest) }))
	return once.(func() found)()
}

// TestModel explores small bounds; with FENCEGATE_MODEL=large, larger ones for some minutes.
func TestModel(t *testing.T) {
	t.Parallel()
	large := os.Getenv("FENCEGATE_MODEL") == "large"
	type bounds struct {
		rules   rules
		highest int8
		broken  bool
		large   bool
	}
	all := map[string]bounds{
		"ours":                       {rules: ours, highest: 1},
		"ours, a node lost for good": {rules: with(func(r *rules) { r.loss = 1 })},
		"ours, larger":               {rules: ours, highest: 2, large: true},
		"ours, a request twice":      {rules: with(func(r *rules) { r.duplic = 1 }), highest: 1, large: true},
		// Numbers do not need the waiting, as long as what was granted before is barred.
		"ours, admitted": {rules: with(func(r *rules) { r.loss, r.admit, r.peers, r.bar = 1, true, 2, true }), highest: 1, large: true},
		"admitted at once, nothing barred": {
			rules: with(func(r *rules) { r.loss, r.admit, r.peers = 1, true, 2 }), highest: 1, broken: true, large: true,
		},
	}
	for name, r := range weaker {
		all[name] = bounds{rules: r, highest: 1, broken: true}
	}
	for name, c := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.large && !large {
				t.Skip("FENCEGATE_MODEL=large runs it")
			}
			found := counterexample(c.rules, c.highest)
			t.Logf("%d states", found.states)
			for _, st := range found.trace {
				t.Log(st.text)
			}
			if got := found.trace != nil; got != c.broken {
				t.Errorf("a violation was found: %v, want %v", got, c.broken)
			}
		})
	}
}
