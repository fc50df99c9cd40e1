package fault_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fencegate/fencegate/internal/torture/history"
	"github.com/fencegate/fencegate/internal/torture/rig"
)

// countRows counts in the run's database.
func (s *scene) countRows(name string) counter {
	s.Helper()
	const table = "create table if not exists torture_counter (n bigint); " +
		"insert into torture_counter select 0 where not exists (select from torture_counter)"
	if err := s.within(slack, func() error { return s.exec(table) }); err != nil {
		s.Fatal(err)
	}
	url := strings.Replace(s.r.PostgresURL(), s.r.Server(name), s.r.Links[name].Addr(), 1)
	var mu sync.Mutex // guards c
	var c *pgx.Conn   // stays: on a busy machine a new one takes longer than what some faults lose
	hangUp := func() {
		if c != nil {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(s.Context()), time.Second)
			defer cancel()
			_ = c.Close(ctx)
			c = nil
		}
	}
	one := func(sql string) func(ctx context.Context) (int64, error) {
		return func(ctx context.Context) (n int64, err error) {
			mu.Lock()
			defer mu.Unlock()
			if c == nil {
				if c, err = pgx.Connect(ctx, url); err != nil {
					return 0, err
				}
			}
			if err = c.QueryRow(ctx, sql).Scan(&n); err != nil {
				hangUp()
			}
			return n, err
		}
	}
	return s.counting(one("update torture_counter set n = n + 1 returning n"), one("select n from torture_counter"), hangUp)
}

func (s *scene) exec(sql string) error {
	ctx, cancel := context.WithTimeout(s.Context(), 5*time.Second)
	defer cancel()
	c, err := pgx.Connect(ctx, s.r.PostgresURL())
	if err != nil {
		return err
	}
	defer func() { _ = c.Close(context.WithoutCancel(ctx)) }()
	_, err = c.Exec(ctx, sql)
	return err
}

func code(want string) func(error) bool {
	return func(err error) bool {
		e, ok := errors.AsType[*pgconn.PgError](err)
		return ok && e.Code == want
	}
}

// TestPostgres makes the faults of a Postgres that is lock and store.
func TestPostgres(t *testing.T) {
	t.Parallel()
	s := start(t, rig.Spec{Lock: "postgres", Store: "postgres", Links: true}, "postgres-slow-fsync", "postgres-out-of-connections", "postgres-deadlocks")
	var one int
	look := func() error { return s.sql(&one, "select 1") }
	var started, again string
	begun := func(at *string) {
		t.Helper()
		if err := s.within(slack, func() error { return s.sql(at, "select pg_postmaster_start_time()::text") }); err != nil {
			t.Fatal(err)
		}
	}
	begun(&started)
	s.make("postgres-kill", func() error { return want(look(), anyError) })
	if begun(&again); again == started {
		t.Error("postgres-kill: it is the same run")
	}
	s.make("postgres-pause", func() error { return want(look(), timedOut) })
	s.make("postgres-readonly", func() error {
		return want(s.exec("create table torture_probe (n int)"), code("25006"))
	})
	s.make("postgres-out-of-connections", func() error { return want(look(), code("53300")) })
	s.make("postgres-lock-table", func() error {
		return want(s.exec("set lock_timeout = '100ms'; select from fencegate.marks limit 1"), code("55P03"))
	})
	s.backendsTerminated()
	var before int
	deadlocks := func(n *int) error {
		return s.sql(n, "select deadlocks from pg_stat_database where datname = current_database()")
	}
	if err := s.within(slack, func() error { return deadlocks(&before) }); err != nil {
		t.Fatal(err)
	}
	s.make("postgres-deadlocks", func() error {
		var n int
		err := deadlocks(&n)
		if err == nil && n == before {
			err = errors.New("there are no deadlocks")
		}
		return err
	})
	s.slowCommits()
	var lost int64
	note := s.make("postgres-older-copy", s.lossOf(s.countRows("server"), &lost))
	if want := []history.Loss{history.LosesLocks, history.LosesData}; lost <= 0 || !slices.Equal(note.Loses, want) {
		t.Errorf("postgres-older-copy: %d counts are lost, and it says %v", lost, note.Loses)
	}
}

// backendsTerminated: a connection of ours dies.
func (s *scene) backendsTerminated() {
	s.Helper()
	c, err := pgx.Connect(s.Context(), s.r.PostgresURL())
	if err != nil {
		s.Fatal(err)
	}
	defer func() { _ = c.Close(context.WithoutCancel(s.Context())) }()
	s.make("postgres-terminate-backends", func() error {
		_, err := c.Exec(s.Context(), "select 1")
		return want(err, anyError)
	})
}

// slowCommits: the quickest of some commits is slow, and then it is not.
func (s *scene) slowCommits() {
	s.Helper()
	if err := s.within(slack, func() error { return s.exec("create table if not exists torture_slow (n int)") }); err != nil {
		s.Fatal(err)
	}
	quickest := func() (best float64, err error) {
		err = s.sql(&best, "select 0::float8")
		if err != nil {
			return 0, err
		}
		ctx, cancel := context.WithTimeout(s.Context(), 5*time.Second)
		defer cancel()
		c, err := pgx.Connect(ctx, s.r.PostgresURL())
		if err != nil {
			return 0, err
		}
		defer func() { _ = c.Close(context.WithoutCancel(ctx)) }()
		best = 1e9
		for range 8 {
			began := time.Now()
			if _, err := c.Exec(ctx, "insert into torture_slow values (1)"); err != nil {
				return 0, err
			}
			best = min(best, time.Since(began).Seconds()*1000)
		}
		return best, nil
	}
	s.make("postgres-slow-fsync", func() error {
		best, err := quickest()
		if err == nil && best < 15 {
			err = fmt.Errorf("a commit took %.1f ms", best)
		}
		return err
	})
	if err := s.within(slack, func() error {
		best, err := quickest()
		if err == nil && best > 15 {
			err = fmt.Errorf("after it was healed a commit took %.1f ms", best)
		}
		return err
	}); err != nil {
		s.Error(err)
	}
}

// TestPostgresLosses makes the faults that move or rewind a Postgres, which is the store.
func TestPostgresLosses(t *testing.T) {
	t.Parallel()
	s := start(t, rig.Spec{Lock: "redis", Store: "postgres"}, "postgres-failover-sync", "postgres-failover-async")
	var lost int64
	for _, c := range []struct {
		name string
		lost bool
		want []history.Loss
	}{
		{"postgres-failover-sync", false, nil},
		{"postgres-cancel-sync-wait", false, nil},
		{"postgres-failover-async", true, []history.Loss{history.LosesCommits}},
		{"postgres-failover-sync", false, nil},
	} {
		addr := s.r.Server("store")
		count := s.countRows("store")
		var note history.Fault
		if c.name == "postgres-cancel-sync-wait" {
			note = s.make(c.name, nil)
			if strings.HasPrefix(note.Detail, "0 ") {
				t.Errorf("%s: %s", c.name, note.Detail)
			}
			count.stop()
		} else {
			note = s.make(c.name, s.lossOf(count, &lost))
		}
		if (lost > 0) != c.lost || lost < 0 || !slices.Equal(note.Loses, c.want) {
			t.Errorf("%s: %d counts are lost, and it says %v", c.name, lost, note.Loses)
		}
		if moved := s.r.Server("store") != addr; moved != strings.Contains(c.name, "failover") {
			t.Errorf("%s: the server moved: %t", c.name, moved)
		}
		lost = 0
	}
}
