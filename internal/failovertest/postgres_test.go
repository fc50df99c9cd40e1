package failovertest_test

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/internal/pgtx/pgtxtest"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/locking/pglock"
	"github.com/fencegate/fencegate/locking/redislock"
	"github.com/fencegate/fencegate/storage/pgstore"
)

// noSync: the page cache survives a kill, so what the server has written is there with fsync
// and without.
var noSync = &testenv.PostgresOptions{NoSync: true}

// postgres is a server that clients know by an address which stays.
type postgres struct {
	*testenv.Postgres
	address *testenv.Address
	url     string // by the address
}

func startPostgres(t *testing.T) *postgres {
	t.Helper()
	server := testenv.StartPostgres(t, noSync)
	url := server.NewDatabase(t)
	if err := pgtxtest.Migrate(url); err != nil {
		t.Fatal(err)
	}
	address := testenv.NewAddress(t, server.Addr())
	return &postgres{server, address, strings.Replace(url, server.Addr(), address.Addr(), 1)}
}

// benches are a store in the database with a lock elsewhere, and with one beside it.
func (p *postgres) benches(t *testing.T) []bench {
	t.Helper()
	pool := pgtxtest.Open(t, p.url, pgstore.Configure, func(c *pgxpool.Config) { c.MaxConns = 30 })
	store, err := pgstore.New(t.Context(), pool, nil)
	if err != nil {
		t.Fatal(err)
	}
	beside, err := pglock.New(t.Context(), pool, nil)
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(&redis.Options{Addr: testenv.SharedRedis(t).Addr(), MaxRetries: -1, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = client.Close() })
	elsewhere, err := redislock.New(client, nil)
	if err != nil {
		t.Fatal(err)
	}
	return []bench{newBench(t, "redis", elsewhere, store), newBench(t, "postgres", beside, store)}
}

// both starts loads and holders on benches.
func (l *log) both(benches []bench) (loads []*load, holders []*holder) {
	l.Helper()
	for _, b := range benches {
		holders = append(holders, l.hold(b))
		loads = append(loads, l.startLoad(b, 2))
	}
	return loads, holders
}

func awaitTurns(loads []*load, what string) {
	for _, ld := range loads {
		ld.Helper()
		ld.awaitTurns(5, healed+slack, what)
	}
}

// TestSynchronousStandby kills the primary under load and promotes its synchronous standby:
// nothing acknowledged is lost.
func TestSynchronousStandby(t *testing.T) {
	t.Parallel()
	primary := startPostgres(t)
	standby := testenv.StartPostgres(t, &testenv.PostgresOptions{NoSync: true, StandbyOf: primary.Postgres})
	primary.Set("synchronous_standby_names", "*")
	primary.AwaitStandby("sync")
	l := newLog(t)
	loads, holders := l.both(primary.benches(t))
	awaitTurns(loads, "with the standby")

	primary.Kill()
	standby.Promote()
	primary.address.MoveTo(standby.Addr())
	awaitTurns(loads, "after the failover")
	for _, h := range holders {
		h.wantEnded()
	}
	for _, ld := range loads {
		if lost := ld.judge(); lost != 0 {
			t.Errorf("%s lock: %d acknowledged writes are lost, want none", ld.b.name, lost)
		}
	}
}

// TestAsynchronousStandby promotes a standby that lacks the last writes. What is lost is lost;
// but nobody writes what was computed from it.
func TestAsynchronousStandby(t *testing.T) {
	t.Parallel()
	primary := startPostgres(t)
	standby := testenv.StartPostgres(t, &testenv.PostgresOptions{NoSync: true, StandbyOf: primary.Postgres})
	primary.AwaitStandby("streaming")
	l := newLog(t)
	loads, holders := l.both(primary.benches(t))
	awaitTurns(loads, "with the standby")
	primary.awaitReplay(t, standby) // it has the holders' tokens as marks, and their first writes

	standby.Detach()
	for _, h := range holders {
		h.goOn()
	}
	awaitTurns(loads, "without the standby")
	primary.Kill()
	standby.Promote()
	primary.address.MoveTo(standby.Addr())
	for _, h := range holders {
		h.wantEnded()
	}
	awaitTurns(loads, "after the failover")
	for _, ld := range loads {
		if ld.judge() == 0 {
			t.Errorf("%s lock: nothing was lost: the standby did not lack what it was to lack", ld.b.name)
		}
	}
}

// awaitReplay waits until a standby has all that the server has written by now.
func (p *postgres) awaitReplay(t *testing.T, standby *testenv.Postgres) {
	t.Helper()
	var position string
	ask(t, p.URL(), "select pg_current_wal_insert_lsn()::text", &position)
	testenv.Eventually(t, slack, "the standby has replayed "+position, func() bool {
		var there bool
		ask(t, standby.URL(), "select pg_last_wal_replay_lsn() >= '"+position+"'", &there)
		return there
	})
}

func ask(t *testing.T, url, sql string, dest any) {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if err := pool.QueryRow(context.WithoutCancel(t.Context()), sql).Scan(dest); err != nil {
		t.Fatal(err)
	}
}

// TestPostgresComesBack kills a server under load and starts it again: as it was, with a base
// backup in its place, and with an older data directory.
func TestPostgresComesBack(t *testing.T) {
	t.Parallel()
	server := startPostgres(t)
	elsewhere := server.benches(t)[:1] // a lock in the same database forgets numbers with it
	for _, c := range []struct {
		name        string
		save, again func()
		keeps       bool
	}{
		{"a restart", func() {}, server.Restart, true},
		{"a base backup", server.SaveBackup, server.RestoreCopy, false},
		{"an older data directory", server.SaveCopy, server.RestoreCopy, false},
	} {
		l := newLog(t)
		loads, holders := l.both(elsewhere)
		awaitTurns(loads, c.name+": before the copy")
		c.save()
		for _, h := range holders {
			h.goOn()
		}
		awaitTurns(loads, c.name+": after the copy")
		c.again()
		for _, h := range holders {
			h.wantEnded()
		}
		awaitTurns(loads, c.name+": after the fault")
		for _, ld := range loads {
			if lost := ld.judge(); (lost == 0) != c.keeps {
				t.Errorf("%s: %d acknowledged writes are lost", c.name, lost)
			}
		}
	}
}
