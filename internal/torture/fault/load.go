package fault

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/torture/history"
	"github.com/fencegate/fencegate/internal/torture/rig"
	"github.com/fencegate/fencegate/locking"
)

func loadFaults() []Fault {
	return []Fault{
		{
			Name:   "pool-exhausted",
			What:   "each client process has two connections for all of its seats",
			Expect: "a call that gets no connection in time has failed, surely nothing of it happened; leases whose renewals wait are lost",
			// A row lock is a connection: two locks would be all there is.
			Fits:    func(s rig.Spec) bool { return s.Gateways == 0 && s.Lock != "rowlock" },
			Prepare: func(s *rig.Spec) { s.Client.Pool = 2 },
			Hold:    time.Second,
			Inject: func(_ context.Context, r *rig.Rig, _ *rand.Rand, note *history.Fault) (healing, error) {
				note.Detail = fmt.Sprintf("%d seats have %d connections, all the time", r.Spec.Client.Seats, r.Spec.Client.Pool)
				return none, nil
			},
		},
		{
			Name:   "herd",
			What:   "up to 5,000 wait for one lock at once",
			Expect: "each is granted it, or is told that it is held still; nobody is left waiting, and the others are served meanwhile",
			Fits:   anywhere, Hold: 100 * time.Millisecond,
			Inject: func(ctx context.Context, r *rig.Rig, rnd *rand.Rand, note *history.Fault) (healing, error) {
				return herd(ctx, r, rnd, note, herdSize(r.Spec.Lock))
			},
		},
		forged(),
	}
}

// patience is how long one of the herd waits.
const patience = 5 * time.Second

// herdSize is what a lock stands on a machine with two cores: redlock has no queue, and a row lock takes a connection to
// wait.
func herdSize(lock string) int {
	switch lock {
	case "redlock":
		return 500
	case "rowlock":
		return 300
	case "postgres":
		return 2000
	}
	return 5000
}

// herd has n wait for one lock at once.
func herd(ctx context.Context, r *rig.Rig, rnd *rand.Rand, note *history.Fault, n int) (healing, error) {
	access, err := r.Access(ctx)
	if err != nil {
		return nil, err
	}
	o := newOps("herd", rnd)
	resource := r.Spec.Client.Prefix + "-" + o.name
	outer := ctx
	ctx, cancel := context.WithTimeout(ctx, 2*patience)
	defer cancel()
	began := time.Now()
	var all sync.WaitGroup
	for range n {
		rnd := fork(rnd)
		all.Go(func() { o.oneOfMany(ctx, rnd, access.Issuer, resource) })
	}
	all.Wait()
	note.Ops = append(note.Ops, o.list...)
	granted := o.count(history.Acquire, fencing.Applied)
	note.Detail = fmt.Sprintf("%d waited, %d were granted it, %d told that it is held, %d attempts failed, %d unknown, in %v", n,
		granted, o.count(history.Acquire, fencing.Refused),
		o.count(history.Acquire, fencing.Failed), o.count(history.Acquire, fencing.Unknown), time.Since(began).Round(10*time.Millisecond))
	return none, atLeastOne(outer, granted, "none of %d who wanted the lock was granted it", n)
}

// oneOfMany waits for the lock until he is granted it or his patience is over. What failed he tries again.
func (o *ops) oneOfMany(ctx context.Context, rnd *rand.Rand, issuer locking.Issuer, resource string) {
	for deadline := time.Now().Add(patience); ; {
		err := o.grantAndRelease(ctx, issuer, resource, time.Until(deadline))
		if fencing.OutcomeOf(err) != fencing.Failed {
			return
		}
		wait(ctx, about(rnd, 200*time.Millisecond))
		if time.Now().After(deadline) || ctx.Err() != nil {
			return
		}
	}
}

func (o *ops) grantAndRelease(ctx context.Context, issuer locking.Issuer, resource string, wait time.Duration) error {
	const ttl = 3 * time.Second // nobody renews it
	var token fencing.Token
	op := history.Op{Workload: "herd", Kind: history.Acquire, Group: resource}
	err := o.call(op, func(op *history.Op) error {
		granted, err := issuer.Grant(ctx, locking.Request{Resource: resource, Grant: fencing.NewGrant(), Label: "herd", TTL: ttl, Wait: max(wait, 0)})
		if err != nil {
			return err
		}
		token = granted.Token
		op.Tokens, op.Until = []history.Token{history.TokenOf(token)}, op.Call+int64(ttl)
		return nil
	})
	if err != nil {
		return err
	}
	op.Kind, op.Tokens = history.Release, []history.Token{history.TokenOf(token)}
	_ = o.call(op, func(op *history.Op) (err error) {
		op.Freed, err = issuer.Release(ctx, token)
		return err
	})
	return nil
}
