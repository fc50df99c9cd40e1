package fault

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/internal/torture/history"
	"github.com/fencegate/fencegate/internal/torture/rig"
)

func terminateBackends(ctx context.Context, r *rig.Rig, rnd *rand.Rand, note *history.Fault) (healing, error) {
	c, err := connect(ctx, r)
	if err != nil {
		return nil, err
	}
	note.Loses = cutLoses(r.Spec)
	ended := 0
	stop := repeat(ctx, rnd, 40*time.Millisecond, func(ctx context.Context, rnd *rand.Rand) (bool, error) {
		var n int
		err := c.QueryRow(ctx, "select count(pg_terminate_backend(pid)) from "+
			"(select pid from pg_stat_activity where "+others+" order by random() limit $1) as chosen", 1+rnd.IntN(6)).Scan(&n)
		ended += n
		return err == nil, err
	})
	return func(clean context.Context) error {
		_, err := stop()
		hangUp(clean, c)
		note.Detail = fmt.Sprintf("%d backends", ended)
		return cmp.Or(err, atLeastOne(ctx, ended, "there was no backend to be terminated"))
	}, nil
}

func cancelSyncWait() Fault {
	return Fault{
		Name: "postgres-cancel-sync-wait",
		What: "the synchronous standby is stopped, and commits that wait for it are canceled (pg_cancel_backend)",
		Expect: "COMMIT answers with a warning: the outcome is unknown, although the primary has the commit; nothing " +
			"is lost as long as the primary lives",
		Own: true, Fits: inPostgres, Hold: time.Second,
		Prepare: func(s *rig.Spec) { s.LockStandby, s.StoreStandby = maxStandby(*s, rig.Sync) },
		Inject: func(ctx context.Context, r *rig.Rig, rnd *rand.Rand, note *history.Fault) (healing, error) {
			outer, standby := ctx, r.PostgresStandby
			if standby == nil {
				return nil, errors.New("the Postgres has no standby")
			}
			c, err := connect(ctx, r)
			if err != nil {
				return nil, err
			}
			if err := r.Try(standby.Pause); err != nil {
				hangUp(ctx, c)
				return func(context.Context) error { return r.Try(standby.Resume) }, err
			}
			canceled := 0
			stop := repeat(ctx, rnd, 100*time.Millisecond, func(ctx context.Context, _ *rand.Rand) (bool, error) {
				var n int
				err := c.QueryRow(ctx, "select count(pg_cancel_backend(pid)) from pg_stat_activity where wait_event = 'SyncRep' and "+others).Scan(&n)
				canceled += n
				return err == nil, err
			})
			return func(ctx context.Context) error {
				_, err := stop()
				hangUp(ctx, c)
				note.Detail = fmt.Sprintf("%d waits canceled", canceled)
				return cmp.Or(errors.Join(err, r.Try(standby.Resume)), atLeastOne(outer, canceled, "no commit waited for the standby"))
			}, nil
		},
	}
}

func readonlyPostgres(_ context.Context, r *rig.Rig, _ *rand.Rand, _ *history.Fault) (healing, error) {
	p := aPostgres(r)
	set := func(value string) error {
		return r.Try(func() { p.Set("default_transaction_read_only", value) })
	}
	return func(context.Context) error { return set("off") }, set("on")
}

// takeConnections ends all backends of clients and takes their places, and those that become free later.
func takeConnections(ctx context.Context, r *rig.Rig, rnd *rand.Rand, note *history.Fault) (healing, error) {
	var mu sync.Mutex
	var taken []*pgx.Conn
	note.Loses = cutLoses(r.Spec)
	admin, err := connect(ctx, r)
	if err != nil {
		return nil, err
	}
	take := func(ctx context.Context) (bool, error) {
		c, err := connectAsStranger(ctx, r)
		if err != nil {
			return false, err
		}
		mu.Lock()
		defer mu.Unlock()
		taken = append(taken, c)
		return true, nil
	}
	if _, err := admin.Exec(ctx, "select pg_terminate_backend(pid) from pg_stat_activity where "+others); err != nil {
		hangUp(ctx, admin)
		return nil, err
	}
	const takers = 8
	stops := make([]func() (int, error), takers)
	for i := range stops {
		stops[i] = repeat(ctx, rnd, 20*time.Millisecond, func(ctx context.Context, _ *rand.Rand) (bool, error) {
			for ctx.Err() == nil {
				if ok, err := take(ctx); !ok {
					return false, err
				}
			}
			return true, nil
		})
	}
	heal := func(ctx context.Context) error {
		for _, stop := range stops {
			_, _ = stop() // in the end each is told that there is no place
		}
		// The server ends them quicker than they say goodbye one by one.
		_, err := admin.Exec(ctx, "select pg_terminate_backend(pid) from pg_stat_activity where "+others+" and application_name = $1", stranger)
		hangUp(ctx, admin)
		for _, c := range taken {
			hangUp(ctx, c)
		}
		note.Detail = fmt.Sprintf("%d connections", len(taken))
		return err
	}
	// Full when there are as many as may be, whoever has them.
	return heal, until(ctx, 10*time.Second, "all connections are taken", func() (full bool, err error) {
		err = admin.QueryRow(ctx, "select count(*) >= current_setting('max_connections')::int from pg_stat_activity where backend_type = 'client backend'").Scan(&full)
		return full, err
	})
}

func lockTable(ctx context.Context, r *rig.Rig, _ *rand.Rand, _ *history.Fault) (healing, error) {
	c, err := connect(ctx, r)
	if err != nil {
		return nil, err
	}
	heal := func(ctx context.Context) error { return c.Close(ctx) } // and with it ends the transaction
	return heal, until(ctx, 10*time.Second, "the table is locked", func() (bool, error) {
		_, err := c.Exec(ctx, "begin; set local lock_timeout = '500ms'; lock table fencegate.marks in access exclusive mode")
		if err != nil {
			_, back := c.Exec(ctx, "rollback")
			return false, errors.Join(err, back)
		}
		return true, nil
	})
}

func deadlocks(ctx context.Context, r *rig.Rig, rnd *rand.Rand, note *history.Fault) (healing, error) {
	outer := ctx
	before, err := countDeadlocks(ctx, r)
	if err != nil {
		return nil, err
	}
	const administrators = 4
	stops := make([]func() (int, error), administrators)
	for i := range stops {
		stops[i] = repeat(ctx, rnd, 5*time.Millisecond, func(ctx context.Context, _ *rand.Rand) (bool, error) {
			err := lockMarks(ctx, r)
			return err == nil, err
		})
	}
	return func(ctx context.Context) error {
		for _, stop := range stops {
			_, _ = stop() // its transactions may all have been victims
		}
		// A backend tells the others of its deadlocks a little later, when it is idle.
		_ = until(ctx, time.Second, "", func() (bool, error) {
			after, err := countDeadlocks(ctx, r)
			return after > before, err
		})
		after, err := countDeadlocks(ctx, r)
		note.Detail = fmt.Sprintf("%d deadlocks", after-before)
		return cmp.Or(err, atLeastOne(outer, after-before, "there was no deadlock"))
	}, nil
}

func countDeadlocks(ctx context.Context, r *rig.Rig) (int, error) {
	return query[int](ctx, r, "select deadlocks::int from pg_stat_database where datname = current_database()")
}

// lockMarks locks some marks of the run in no order, and does nothing with them.
func lockMarks(ctx context.Context, r *rig.Rig) error {
	c, err := connect(ctx, r)
	if err != nil {
		return err
	}
	defer hangUp(ctx, c)
	rows, err := c.Query(ctx, "select resource from fencegate.marks where starts_with(resource, $1) order by random() limit 12", r.Spec.Client.Prefix)
	if err != nil {
		return err
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
		for _, name := range names {
			if _, err := tx.Exec(ctx, "select from fencegate.marks where resource = $1 for update", name); err != nil {
				return err
			}
			wait(ctx, 8*time.Millisecond)
		}
		return nil
	})
}
