package fault

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/internal/torture/history"
	"github.com/fencegate/fencegate/internal/torture/rig"
	"github.com/fencegate/fencegate/locking/redlock"
)

func redlockFaults() []Fault {
	return []Fault{
		{
			Name:   "redlock-minority-kill",
			What:   "as many nodes of redlock as are no majority are killed (SIGKILL), and started again",
			Expect: "locks are granted meanwhile, numbers go on; the nodes keep everything, and take part again",
			Own:    true, Fits: withRedlock, Hold: 700 * time.Millisecond,
			Inject: func(_ context.Context, r *rig.Rig, rnd *rand.Rand, note *history.Fault) (healing, error) {
				return onNodes(r, note, pick(rnd, minority(r), len(r.LockRedis)), (*testenv.Redis).Kill, (*testenv.Redis).Restart)
			},
		},
		{
			Name:   "redlock-majority-kill",
			What:   "a majority of the nodes of redlock is killed (SIGKILL), and started again",
			Expect: "nothing is granted meanwhile; afterwards numbers go on where they were",
			Own:    true, Fits: withRedlock, Hold: 500 * time.Millisecond,
			Inject: func(_ context.Context, r *rig.Rig, rnd *rand.Rand, note *history.Fault) (healing, error) {
				return onNodes(r, note, pick(rnd, len(r.LockRedis)/2+1, len(r.LockRedis)), (*testenv.Redis).Kill, (*testenv.Redis).Restart)
			},
		},
		{
			Name:   "redlock-minority-pause",
			What:   "as many nodes of redlock as are no majority are stopped (SIGSTOP) past the leases",
			Expect: "locks are granted meanwhile; what the nodes find when they go on grants nothing",
			Own:    true, Fits: withRedlock, Hold: past,
			Inject: func(_ context.Context, r *rig.Rig, rnd *rand.Rand, note *history.Fault) (healing, error) {
				return onNodes(r, note, pick(rnd, minority(r), len(r.LockRedis)), (*testenv.Redis).Pause, (*testenv.Redis).Resume)
			},
		},
		{
			Name: "redlock-node-empty",
			What: "a node of redlock is started again without its data",
			Expect: "it stays in quarantine, which is not healed here, since an operator has to wait for the longest TTL; the " +
				"others grant, and no number comes twice",
			Own: true, Destroys: true, Fits: withRedlock, Hold: 300 * time.Millisecond, Inject: emptyNode,
		},
		{
			Name: "redlock-node-older-copy",
			What: "a node of redlock that is marked as durable is started again with a copy of its files from a moment ago",
			Expect: "its marker is believed, as documented, so a number may come twice; then the store refuses one of " +
				"the two, and the lock goes on above the mark",
			Loses: []history.Loss{history.LosesLocks}, Own: true, Destroys: true, Fits: withRedlock, Hold: 200 * time.Millisecond,
			Inject: func(ctx context.Context, r *rig.Rig, rnd *rand.Rand, note *history.Fault) (healing, error) {
				i, age := rnd.IntN(len(r.LockRedis)), about(rnd, 400*time.Millisecond)
				note.Detail = fmt.Sprintf("node %d, by %v", i, age.Round(time.Millisecond))
				if err := r.Try(r.LockRedis[i].SaveCopy); err != nil {
					return nil, err
				}
				wait(ctx, age)
				return none, r.Try(r.LockRedis[i].RestoreCopy)
			},
		},
	}
}

// minority is how many nodes may be down.
func minority(r *rig.Rig) int { return (len(r.LockRedis) - 1) / 2 }

// onNodes does something to nodes, and to heal it undoes it.
func onNodes(r *rig.Rig, note *history.Fault, which []int, do, undo func(*testenv.Redis)) (healing, error) {
	note.Detail = fmt.Sprintf("nodes %v of %d", which, len(r.LockRedis))
	each := func(f func(*testenv.Redis)) error {
		var errs []error
		for _, i := range which {
			if err := r.Try(func() { f(r.LockRedis[i]) }); err != nil {
				errs = append(errs, fmt.Errorf("node %d: %w", i, err))
			}
		}
		return errors.Join(errs...)
	}
	return func(context.Context) error { return each(undo) }, each(do)
}

// emptyNode always takes the node that is in quarantine already, if there is one: else the third time there
// would be no majority left.
func emptyNode(ctx context.Context, r *rig.Rig, rnd *rand.Rand, note *history.Fault) (healing, error) {
	i := rnd.IntN(len(r.LockRedis))
	look := func(b *redlock.Backend) error {
		for k, n := range b.Nodes(ctx) {
			if n.State == redlock.NodeQuarantine {
				i = k
			}
		}
		return nil
	}
	if err := r.Redlock(look); err != nil {
		return nil, err
	}
	note.Detail = fmt.Sprintf("node %d of %d", i, len(r.LockRedis))
	return none, r.Try(r.LockRedis[i].RestartEmpty)
}
