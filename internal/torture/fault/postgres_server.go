package fault

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/internal/torture/history"
	"github.com/fencegate/fencegate/internal/torture/rig"
)

// aPostgres returns the private Postgres of a rig: lock and store are in one database.
func aPostgres(r *rig.Rig) *testenv.Postgres {
	if r.StorePostgres != nil {
		return r.StorePostgres
	}
	return r.LockPostgres
}

// postgresLoses says what is lost where the lock loses, and the store.
func postgresLoses(s rig.Spec, lock, store history.Loss) (list []history.Loss) {
	if lockInPostgres(s) && lock != history.LosesNothing {
		list = append(list, lock)
	}
	if storeInPostgres(s) && store != history.LosesNothing {
		list = append(list, store)
	}
	return list
}

// cutLoses says what is lost where connections are cut: a row lock, at once, which its holder trusts until he
// hears of it.
func cutLoses(s rig.Spec) []history.Loss {
	if s.Lock == "rowlock" {
		return []history.Loss{history.LosesLocks}
	}
	return nil
}

// connect opens a connection to the run's database as its owner, past links. It is the caller's to close.
func connect(ctx context.Context, r *rig.Rig) (*pgx.Conn, error) {
	c, err := pgx.Connect(ctx, r.PostgresURL())
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	return c, nil
}

// stranger is what connections call themselves that are somebody else's.
const stranger = "fencegate-torture-stranger"

// connectAsStranger opens a connection that can be told from all others.
func connectAsStranger(ctx context.Context, r *rig.Rig) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig(r.PostgresURL())
	if err != nil {
		return nil, err
	}
	config.RuntimeParams["application_name"] = stranger
	return pgx.ConnectConfig(ctx, config)
}

func hangUp(ctx context.Context, c *pgx.Conn) { _ = c.Close(context.WithoutCancel(ctx)) }

// query asks for one value, on a connection of its own.
func query[T any](ctx context.Context, r *rig.Rig, sql string, args ...any) (v T, err error) {
	c, err := connect(ctx, r)
	if err != nil {
		return v, err
	}
	defer hangUp(ctx, c)
	err = c.QueryRow(ctx, sql, args...).Scan(&v)
	return v, err
}

// others is a condition on pg_stat_activity: who is in the run's database, but for whoever asks.
const others = "datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()"

// set asks for a setting of Postgres, once.
func set(s *rig.Spec, line string) {
	if inPostgres(*s) && !slices.Contains(s.PostgresSettings, line) {
		s.PostgresSettings = append(slices.Clip(s.PostgresSettings), line)
	}
}
