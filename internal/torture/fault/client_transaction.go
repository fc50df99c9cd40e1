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
			resume, err = pauseInTransaction(ctx, r, rnd, note)
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
// a mark. If none does within some seconds, it is a pause like any other.
func pauseInTransaction(ctx context.Context, r *rig.Rig, rnd *rand.Rand, note *history.Fault) (healing, error) {
	for deadline := time.Now().Add(4 * time.Second); ; {
		places := byHolding(r)
		i := places[rnd.IntN(max(1, len(places)/2))]
		note.Paused = nil
		resume, err := pause(r, note, []int{i})
		if err != nil {
			return resume, err
		}
		n, err := leftIdle(ctx, r)
		if n > 0 || err != nil || time.Now().After(deadline) {
			note.Detail = fmt.Sprintf("process %d, which left %d transactions open", r.Clients[i].ID(), n)
			return resume, err
		}
		if err := resume(ctx); err != nil {
			return nil, err
		}
		wait(ctx, about(rnd, 40*time.Millisecond))
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
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
