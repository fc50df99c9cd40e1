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

// losesPostgres is the most that a Postgres forgets: the lock's and the store's.
var losesPostgres = []history.Loss{history.LosesLocks, history.LosesData}

func postgresFaults() []Fault {
	return []Fault{
		{
			Name: "postgres-kill",
			What: "all processes of Postgres are killed (SIGKILL), and it is started again",
			Expect: "nothing that was acknowledged is lost; as a store it shows a new incarnation, and all leases end; " +
				"commits that were under way are there or not, as a whole, and were reported as unknown",
			Loses: []history.Loss{history.LosesLocks}, Own: true, Fits: inPostgres, Hold: 300 * time.Millisecond,
			Inject: func(_ context.Context, r *rig.Rig, _ *rand.Rand, note *history.Fault) (healing, error) {
				note.Loses = cutLoses(r.Spec)
				heal := func(context.Context) error { return r.Try(aPostgres(r).Restart) }
				return heal, r.Try(aPostgres(r).Kill)
			},
		},
		{
			Name:   "postgres-pause",
			What:   "all processes of Postgres are stopped (SIGSTOP) for longer than the leases last",
			Expect: "leases end by the clocks of their holders; calls that wait are judged by the rule when it goes on",
			Own:    true, Fits: inPostgres, Hold: past,
			Inject: func(_ context.Context, r *rig.Rig, _ *rand.Rand, _ *history.Fault) (healing, error) {
				heal := func(context.Context) error { return r.Try(aPostgres(r).Resume) }
				return heal, r.Try(aPostgres(r).Pause)
			},
		},
		{
			Name: "postgres-older-copy",
			What: "Postgres is started again with a copy of its files from a moment ago",
			Expect: "it shows a new incarnation: no token of before is current again, although the mark may be an older " +
				"one; what is lost nobody builds upon",
			Loses: losesPostgres, Own: true, Destroys: true, Fits: inPostgres, Hold: 200 * time.Millisecond, Inject: olderPostgres,
		},
		failoverPostgres(rig.Sync),
		failoverPostgres(rig.Async),
		{
			Name: "postgres-terminate-backends",
			What: "some of the backends of clients are terminated (pg_terminate_backend), again and again",
			Expect: "their transactions have failed if COMMIT was not sent, and are unknown else; row locks go with " +
				"their connection",
			Loses: []history.Loss{history.LosesLocks}, Own: true, Fits: inPostgres, Hold: time.Second, Inject: terminateBackends,
		},
		cancelSyncWait(),
		{
			Name:   "postgres-readonly",
			What:   "transactions are read-only by default (default_transaction_read_only), in new sessions and old ones",
			Expect: "what does not ask for a transaction that writes fails; nothing is lost and nothing stale accepted",
			Own:    true, Fits: inPostgres, Hold: 700 * time.Millisecond, Inject: readonlyPostgres,
		},
		{
			Name:   "postgres-out-of-connections",
			What:   "somebody else's connections take all the places of Postgres, and nobody gets a new one",
			Expect: "calls without a connection have failed, surely nothing of them happened; afterwards everybody is served again",
			Loses:  []history.Loss{history.LosesLocks},
			Own:    true, Fits: inPostgres, Hold: 700 * time.Millisecond, Inject: takeConnections,
			Prepare: func(s *rig.Spec) { set(s, "max_connections = 100") },
		},
		{
			Name:   "postgres-lock-table",
			What:   "an administrator holds LOCK TABLE fencegate.marks IN ACCESS EXCLUSIVE MODE",
			Expect: "raises and commits wait, and fail when their time is up; leases end meanwhile, and late writes are refused",
			Fits:   storeInPostgres, Hold: 900 * time.Millisecond, Inject: lockTable,
		},
		{
			Name: "postgres-deadlocks",
			What: "an administrator's transactions lock marks in the wrong order, and some commits are the victims of " +
				"the deadlocks",
			Expect: "a victim has failed or is tried again, and is never half done",
			Fits:   storeInPostgres, Hold: 1200 * time.Millisecond, Inject: deadlocks,
			Prepare: func(s *rig.Spec) { set(s, "deadlock_timeout = 50ms") },
		},
		slowSync("postgres-slow-fsync", inPostgres,
			func(s *rig.Spec) *[]string { return &s.PostgresEnv },
			func(r *rig.Rig, _ *rand.Rand) (string, string, bool) {
				p := aPostgres(r)
				if p == nil {
					return "postgres", "", false
				}
				return "postgres", p.Dir(), true
			}),
	}
}

func olderPostgres(ctx context.Context, r *rig.Rig, rnd *rand.Rand, note *history.Fault) (healing, error) {
	p := aPostgres(r)
	age := about(rnd, 400*time.Millisecond)
	note.Loses = postgresLoses(r.Spec, history.LosesLocks, history.LosesData)
	note.Detail = fmt.Sprintf("by %v", age.Round(time.Millisecond))
	if err := r.Try(p.SaveCopy); err != nil {
		return nil, err
	}
	wait(ctx, age)
	if err := r.Try(p.RestoreCopy); err != nil {
		return nil, err
	}
	if r.PostgresStandby == nil {
		return none, nil
	}
	return none, r.Try(r.PostgresStandby.RestartEmpty) // what it has its primary has not
}

func failoverPostgres(kind rig.Standby) Fault {
	f := Fault{
		Name: "postgres-failover-sync",
		What: "the primary is killed, and its synchronous standby takes its place",
		Expect: "nothing that was acknowledged is lost; as a store it shows a new incarnation, and all leases end; a " +
			"delayed raise for the old primary grants nothing on the new one",
		Loses: []history.Loss{history.LosesLocks}, Own: true, Fits: inPostgres, Hold: 200 * time.Millisecond,
		Prepare: func(s *rig.Spec) {
			s.Links = true
			s.LockStandby, s.StoreStandby = maxStandby(*s, kind)
		},
	}
	if kind == rig.Async {
		f.Name, f.Loses = "postgres-failover-async", []history.Loss{history.LosesLocks, history.LosesCommits}
		f.What = "the primary is killed, and a standby takes its place that lacks the last commits"
		f.Expect = "it shows a new incarnation, and all leases end: what is lost nobody builds upon"
	}
	f.Inject = func(ctx context.Context, r *rig.Rig, rnd *rand.Rand, note *history.Fault) (healing, error) {
		if r.PostgresStandby == nil {
			return nil, errors.New("the Postgres has no standby")
		}
		old := aPostgres(r)
		note.Loses = cutLoses(r.Spec)
		if kind == rig.Async {
			note.Loses = postgresLoses(r.Spec, history.LosesLocks, history.LosesCommits)
			lag := about(rnd, 400*time.Millisecond)
			note.Detail = fmt.Sprintf("it lacked the last %v", lag.Round(time.Millisecond))
			if err := r.Try(func() {
				old.Set("synchronous_standby_names", "") // where another fault wants it: commits would wait
				r.PostgresStandby.Detach()
			}); err != nil {
				return nil, err
			}
			wait(ctx, lag)
		}
		heal := func(context.Context) error { return r.NewPostgresStandby() }
		if err := r.Try(old.Kill); err != nil {
			return heal, err
		}
		return heal, r.PromotePostgres()
	}
	return f
}

// maxStandby asks for a standby of lock and store where they are in Postgres.
func maxStandby(s rig.Spec, kind rig.Standby) (lock, store rig.Standby) {
	lock, store = s.LockStandby, s.StoreStandby
	if lockInPostgres(s) {
		lock = max(lock, kind)
	}
	if storeInPostgres(s) {
		store = max(store, kind)
	}
	return lock, store
}
