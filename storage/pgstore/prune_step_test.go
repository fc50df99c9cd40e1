package pgstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/pgtx/pgtxtest"
	"github.com/fencegate/fencegate/migrations"
	"github.com/fencegate/fencegate/storage/pgstore"
)

// TestPruneNotedPlain: what was there before the step is looked at too.
func TestPruneNotedPlain(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		grant string
		want  error
	}{"a plain number": {"", pgstore.ErrPlain}, "a grant": {fencing.NewGrant(), nil}} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			url := pgtxtest.NewDatabase(t)
			pool := pgtxtest.Open(t, url)
			stepDown(t, url)
			run(t, pool, "select fencegate.raise('r', 5, $1)", c.grant)
			if err := pgtxtest.Migrate(url); err != nil {
				t.Fatal(err)
			}
			pool.Reset() // its sessions know the functions of before
			b := backend(t, pool, nil)
			if _, err := b.Prune(t.Context(), time.Hour, nil); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}

// TestPruneStepBehindReader: the step does not make everybody wait behind somebody who reads.
func TestPruneStepBehindReader(t *testing.T) {
	t.Parallel()
	url := pgtxtest.NewDatabase(t)
	stepDown(t, url)
	pool := pgtxtest.Open(t, url)
	end := during(t, pool, "select count(*) from fencegate.marks")
	migrated := make(chan error, 1)
	go func() { migrated <- pgtxtest.Migrate(url) }()
	select {
	case err := <-migrated:
		if e, ok := errors.AsType[*pgconn.PgError](err); !ok || e.Code != "55P03" {
			t.Errorf("got %v, want that the lock was not to be had", err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the step waits for a reader")
	}
	var version int
	if err := pool.QueryRow(t.Context(), "select version from fencegate.meta").Scan(&version); err != nil || version != 7 {
		t.Errorf("got the version %d, %v, want 7", version, err)
	}
	end()
	if err := pgtxtest.Migrate(url); err != nil {
		t.Errorf("later: %v", err)
	}
}

// stepDown takes back the step of pruning.
func stepDown(t *testing.T, url string) {
	t.Helper()
	m, err := migrations.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if _, err := m.Down(t.Context(), int(migrations.Latest(migrations.Postgres))-7, true); err != nil {
		t.Fatal(err)
	}
}

// TestPruneGate: nobody but the owner's functions gets at what holds up new resources, and
// who only reads the table, as a dump does, holds up nobody.
func TestPruneGate(t *testing.T) {
	t.Parallel()
	url := pgtxtest.NewDatabase(t)
	gateway, owner := pgtxtest.Open(t, url, pgtxtest.As("fencegate_gateway")), pgtxtest.Open(t, url)
	for role, pool := range map[string]*pgxpool.Pool{"the gateway": gateway, "an application": pgtxtest.Open(t, url, pgtxtest.As("fencegate_app"))} {
		for _, mode := range []string{"access share", "row exclusive", "share"} {
			err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
				_, err := tx.Exec(t.Context(), "lock table fencegate.prune_gate in "+mode+" mode")
				return err
			})
			if e, ok := errors.AsType[*pgconn.PgError](err); !ok || e.Code != "42501" {
				t.Errorf("%s, %s: got %v, want permission denied", role, mode, err)
			}
		}
	}
	// What everybody may take.
	advisory := during(t, gateway, "select pg_advisory_lock(1179992659, 1)")
	dump := during(t, owner, "lock table fencegate.prune_gate in access share mode")
	b := backend(t, gateway, nil)
	ctx, cancel := context.WithTimeout(t.Context(), testPatience)
	defer cancel()
	r := token("r", 5)
	if err := errors.Join(b.Raise(ctx, r), b.Evict(ctx, r)); err != nil {
		t.Errorf("raise: %v", err)
	}
	older(t, owner, "r")
	if n, err := b.Prune(ctx, time.Hour, nil); n != 1 || err != nil {
		t.Errorf("dropped %d, %v, want 1", n, err)
	}
	advisory()
	dump()
}
