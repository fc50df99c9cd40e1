package fault

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/torture/history"
	"github.com/fencegate/fencegate/locking"
)

// parent is the Process of calls that a fault makes itself.
const parent = -1

// ops are the calls that a fault makes itself. Its methods are safe for concurrent use.
type ops struct {
	name string // begins their ids

	mu   sync.Mutex // guards the fields below
	list []history.Op
	next int
}

func newOps(fault string, rnd *rand.Rand) *ops {
	return &ops{name: fmt.Sprintf("%s-%08x", fault, rnd.Uint32())}
}

// id returns a new op id.
func (o *ops) id() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.next++
	return fmt.Sprintf("%s-%d", o.name, o.next)
}

// call makes a call, and writes down what came of it. do may fill in what was answered.
func (o *ops) call(op history.Op, do func(op *history.Op) error) error {
	op.Process = parent
	if op.ID == "" {
		op.ID = o.id()
	}
	op.Call = history.Now()
	err := do(&op)
	op.Return = history.Now()
	op.Outcome = fencing.OutcomeOf(err).String()
	if err != nil {
		op.Error = err.Error()
		op.Error = op.Error[:min(len(op.Error), 200)]
		op.Reason = reason(err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.list = append(o.list, op)
	return err
}

// count returns how many calls of a kind had an outcome.
func (o *ops) count(kind history.Kind, outcome fencing.Outcome) (n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, op := range o.list {
		if op.Kind == kind && op.Outcome == outcome.String() {
			n++
		}
	}
	return n
}

// reason says in a word why a call was refused.
func reason(err error) string {
	if stale, ok := errors.AsType[*fencing.StaleError](err); ok {
		return string(stale.Reason)
	}
	if errors.Is(err, locking.ErrHeld) {
		return "held"
	}
	if errors.Is(err, locking.ErrLost) {
		return "lost"
	}
	return ""
}
