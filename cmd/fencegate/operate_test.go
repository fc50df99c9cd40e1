//go:build unix

package main

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/pgtx/pgtxtest"
	"github.com/fencegate/fencegate/internal/testenv"
)

// TestOperateScripts runs doctor and evict on servers of their own.
func TestOperateScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script/operate",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"status": statusCmd, "redis": redisCmd, "migrated": migratedCmd, "durable": durableCmd,
			"standby": standbyCmd, "raise": raiseCmd, "marks": marksCmd, "postgres": postgresCmd, "closedport": closedPortCmd,
			"newer": newerCmd,
		},
		Setup: func(e *testscript.Env) error {
			e.Values[tbKey{}], e.Values[primaryKey{}] = e.T(), new(*testenv.Postgres)
			e.Setenv("GORACE", quickExit)
			return nil
		},
	})
}

// newerCmd is "newer FILE": a program of the future has migrated the SQLite file.
func newerCmd(ts *testscript.TestScript, _ bool, args []string) {
	db, err := sql.Open("sqlite", args[0])
	ts.Check(err)
	_, err = db.Exec("UPDATE fencegate_migrations SET version = 99")
	ts.Check(err)
	ts.Check(db.Close())
}

// primaryKey finds the Postgres server of a script's own.
type primaryKey struct{}

// redisCmd is "redis args...": it starts a Redis and puts its URL into $REDIS.
func redisCmd(ts *testscript.TestScript, _ bool, args []string) {
	ts.Setenv("REDIS", testenv.StartRedis(ts.Value(tbKey{}).(testing.TB), &testenv.RedisOptions{Args: args}).URL())
}

// migratedCmd is "migrated": it puts the URL of a migrated database of a server without
// fsync into $PG.
func migratedCmd(ts *testscript.TestScript, _ bool, _ []string) {
	ts.Setenv("PG", pgtxtest.NewDatabase(ts.Value(tbKey{}).(testing.TB)))
}

// durableCmd is "durable": it starts a Postgres with fsync, and puts the URL of a migrated
// database into $PG.
func durableCmd(ts *testscript.TestScript, _ bool, _ []string) {
	tb := ts.Value(tbKey{}).(testing.TB)
	server := testenv.StartPostgres(tb, nil)
	*ts.Value(primaryKey{}).(**testenv.Postgres) = server
	url := server.NewDatabase(tb)
	ts.Check(pgtxtest.Migrate(url))
	ts.Setenv("PG", url)
}

// standbyCmd is "standby start": it starts a standby of that server; and "standby lost" and "standby
// found": that one waits for a synchronous standby that is not there, and for none.
func standbyCmd(ts *testscript.TestScript, _ bool, args []string) {
	tb := ts.Value(tbKey{}).(testing.TB)
	primary := *ts.Value(primaryKey{}).(**testenv.Postgres)
	switch strings.Join(args, " ") {
	case "start":
		testenv.StartPostgres(tb, &testenv.PostgresOptions{StandbyOf: primary})
		primary.AwaitStandby("streaming")
	case "lost":
		primary.Set("synchronous_standby_names", "nobody")
	case "found":
		primary.Set("synchronous_standby_names", "")
	default:
		ts.Fatalf("usage: standby start|lost|found")
	}
}

// stored opens the store of a script.
func stored(ts *testscript.TestScript, kind string, fn func(context.Context, fencing.Fence) error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	f := storeFlags{Store: kind, RedisURL: ts.Getenv("REDIS"), PostgresURL: ts.Getenv("PG"), SqlitePath: ts.Getenv("SQLITE")}
	o, err := f.backends().open(ctx)
	ts.Check(err)
	ts.Check(fn(ctx, o.store))
	ts.Check(o.close())
}

// raiseCmd is "raise STORE N": it raises a token of each of N resources.
func raiseCmd(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	stored(ts, args[0], func(ctx context.Context, s fencing.Fence) error {
		for i := range n {
			if err := s.Raise(ctx, fencing.Token{Resource: fmt.Sprintf("r:%d", i), Number: 33, Grant: fencing.NewGrant()}); err != nil {
				return err
			}
		}
		return nil
	})
}

// marksCmd is "marks STORE N retired|current": so are the marks of N resources.
func marksCmd(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	stored(ts, args[0], func(ctx context.Context, s fencing.Fence) error {
		for i := range n {
			m, err := s.Mark(ctx, fmt.Sprintf("r:%d", i))
			if err != nil || m.Number != 33 || m.Retired != (args[2] == "retired") {
				return fmt.Errorf("mark %d is %v, %w, want it %s", i, m, err, args[2])
			}
		}
		return nil
	})
}
