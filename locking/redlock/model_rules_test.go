package redlock_test

import (
	"sync"

	"github.com/fencegate/fencegate/internal/model"
)

// The model of the protocol is in internal/model, which explores it. Here its counterexamples are
// played to the real code.

// nodes is how many the model has.
const nodes = 3

// most is how many attempts.
const most = 3

// found is a counterexample.
type found = model.Finding[model.RedlockState]

// weaker are the weaker rules, each with a shortest counterexample. In all of them but the first two
// the lock is looked at.
var weaker = map[string]model.RedlockRules{
	"max of a majority":                       model.Redlock(func(r *model.RedlockRules) { r.Confirm = false }),
	"write-back without checking the lock":    model.Redlock(func(r *model.RedlockRules) { r.Check = false }),
	"write-back where late grants count":      model.Redlock(func(r *model.RedlockRules) { r.OnlyS = false }),
	"a re-sent request":                       model.Redlock(func(r *model.RedlockRules) { r.Double, r.Exact = 1, false }),
	"a node back empty":                       model.Redlock(func(r *model.RedlockRules) { r.Loss, r.Back = 1, true }),
	"a node back empty after waiting a TTL":   model.Redlock(func(r *model.RedlockRules) { r.Loss, r.Admit, r.Wait = 1, true, true }),
	"a node admitted with one peer's counter": model.Redlock(func(r *model.RedlockRules) { r.Loss, r.Admit, r.Wait, r.Peers = 1, true, true, 1 }),
}

var explored sync.Map // of sync.OnceValue, by rules

// counterexample explores what was not explored before in this run of the tests.
func counterexample(r model.RedlockRules) found {
	once, _ := explored.LoadOrStore(r, sync.OnceValue(func() found { return model.Explore(r, 10_000_000) }))
	return once.(func() found)()
}
