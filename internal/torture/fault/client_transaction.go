package fault

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/fencegate/fencegate/internal/torture/history"
	"github.com/fencegate/fencegate/internal/torture/rig"
)

// enoughTries is for how long a process is looked for that is in the middle of a transaction.
const enoughTries = 6 * time.Second

// maxIdle is how long a transaction of a run may sit idle in this fault, less than it lasts; usually it is 5 s.
const maxIdle = 500 * time.Millisecond

func inTransaction() Fault {
	return Fault{
		Name: "client-pause-in-transaction",
		What: "a client process is stopped (SIGSTOP) in the middle of SQL transactions that have entered the fence",
		Expect: "the server ends them when they have been idle for max_idle_ms; until then the raises of the next holders " +
			"wait, and then they go on; nothing of the transactions is there",
		Fits: storeInPostgres, Hold: 1600 * time.Millisecond,
		Inject: func(ctx context.Context, r *rig.Rig, rnd *rand.Rand, note *history.Fault) (healing, error) {
			old, err := setMaxIdle(ctx, r, int(maxIdle.Milliseconds()))
			if err != nil {
				return nil, err
			}
			resume := none
			heal := func(ctx context.Context) error {
				_, err := setMaxIdle(ctx, r, old)
				return errors.Join(resume(ctx), err)
			}
			resume, err = pauseInTransaction(ctx, r, rnd, note, leftIdle, enoughTries)
			return heal, err
		},
	}
}

// setMaxIdle changes how long a transaction that has entered the fence may sit idle, and returns how long
// it was. Every later call of enter heeds it.
func setMaxIdle(ctx context.Context, r *rig.Rig, ms int) (old int, err error) {
	return query[int](ctx, r, "with old as (select max_idle_ms from fencegate.meta) "+
		"update fencegate.meta set max_idle_ms = $1 from old returning old.max_idle_ms", ms)
}

// pauseInTransaction stops one process after another for a moment, until one has left transactions idle that hold
// a mark, which left counts. If none does in time, it is void. What it returns to resume is never nil.
func pauseInTransaction(ctx context.Context, r *rig.Rig, rnd *rand.Rand, note *history.Fault,
	left func(context.Context, *rig.Rig) (int, error), within time.Duration,
) (healing, error) {
	places, err := byHolding(r)
	if err != nil {
		return none, err
	}
	for deadline := time.Now().Add(within); ; {
		i := places[rnd.IntN(max(1, len(places)/2))]
		resume, err := pause(r, note, []int{i})
		if err != nil {
			return resume, err
		}
		n, err := left(ctx, r)
		if n > 0 || err != nil {
			note.Detail = fmt.Sprintf("process %d, which left %d transactions open", r.Clients[i].ID(), n)
			return resume, err
		}
		if err := resume(ctx); err != nil {
			return none, err
		}
		note.Paused = nil // none for longer than a moment
		wait(ctx, about(rnd, 40*time.Millisecond))
		if ctx.Err() != nil {
			return none, context.Cause(ctx)
		}
		if time.Now().After(deadline) {
			return none, Void("within %v no process was stopped in the middle of a transaction", within)
		}
		if places, err = byHolding(r); err != nil {
			return none, err
		}
	}
}

// leftIdle counts the transactions that have locked a row of the marks and are idle for longer than those of
// processes that run.
func leftIdle(ctx context.Context, r *rig.Rig) (int, error) {
	const longer = 80 * time.Millisecond
	wait(ctx, longer+20*time.Millisecond)
	return query[int](ctx, r, `select count(*)::int from pg_stat_activity as a
		where state = 'idle in transaction' and clock_timestamp() - state_change > $1 * interval '1 millisecond' and `+others+`
			and exists (select from pg_locks as l where l.pid = a.pid and l.relation = 'fencegate.marks'::regclass and l.mode = 'RowShareLock')`,
		longer.Milliseconds())
}
