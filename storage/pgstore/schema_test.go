package pgstore_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/pgtx/pgtxtest"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/storage/pgstore"
)

// TestParallelMigrations: the roles belong to the whole server, and four databases make them
// at once.
func TestParallelMigrations(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t, &testenv.PostgresOptions{NoSync: true})
	var urls []string
	for range 4 {
		urls = append(urls, server.NewDatabase(t))
	}
	start := make(chan struct{})
	errs := make([]error, len(urls))
	var wg sync.WaitGroup
	for i, url := range urls {
		wg.Go(func() {
			<-start
			errs[i] = pgtxtest.Migrate(url)
		})
	}
	close(start)
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	for _, url := range urls {
		b := backend(t, pgtxtest.Open(t, url, pgtxtest.As("fencegate_gateway")), nil)
		if err := put(t.Context(), b, raise(t, b, "r", 1), "k", "v"); err != nil {
			t.Errorf("commit: %v", err)
		}
	}
}

func TestRights(t *testing.T) {
	t.Parallel()
	url := pgtxtest.NewDatabase(t)
	for role, statements := range map[string][]string{
		"fencegate_gateway": {
			"update fencegate.marks set number = 1", "update fencegate.marks set retired = false", "delete from fencegate.marks",
			"insert into fencegate.marks (resource, number, grant_id, incarnation) values ('a', 1, '', '')", "truncate fencegate.marks",
			"update fencegate.meta set floor = 0", "truncate fencegate.records", "create table fencegate.t ()",
			"select fencegate.absent_floor()",
		},
		"fencegate_app": {
			"select * from fencegate.marks", "select * from fencegate.records", "select * from fencegate.meta",
			"insert into fencegate.records values ('a', 'b', '', 1)",
			"select fencegate.raise('a', 1, '')", "select fencegate.retire('a', 1, '')", "select fencegate.evict('a', 1, '')", "select fencegate.incarnation()",
			"select fencegate.mark_holder('a', '')",
		},
	} {
		pool := pgtxtest.Open(t, url, pgtxtest.As(role))
		for _, sql := range statements {
			_, err := pool.Exec(t.Context(), sql)
			if e, ok := errors.AsType[*pgconn.PgError](err); !ok || e.Code != "42501" {
				t.Errorf("%s: %s: got %v, want permission denied", role, sql, err)
			}
		}
	}
	var n int
	if err := pgtxtest.Open(t, url).QueryRow(t.Context(), `select count(*) from pg_proc p, aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
		where p.pronamespace = 'fencegate'::regnamespace and a.grantee = 0`).Scan(&n); err != nil || n != 0 {
		t.Errorf("%d functions may be called by everybody, %v", n, err)
	}
	if err := pgtxtest.Open(t, url).QueryRow(t.Context(), `select count(*) from pg_proc where pronamespace = 'fencegate'::regnamespace
		and not coalesce('search_path=pg_catalog, pg_temp' = any(proconfig), false)`).Scan(&n); err != nil || n != 0 {
		t.Errorf("%d functions have no pinned search_path, %v", n, err)
	}
	if err := pgtxtest.Open(t, url).QueryRow(t.Context(), `select count(*) from pg_class where relnamespace = 'fencegate'::regnamespace
		and relpersistence <> 'p'`).Scan(&n); err != nil || n != 0 {
		t.Errorf("%d tables are not permanent, %v", n, err)
	}
}

func TestNew(t *testing.T) {
	t.Parallel()
	empty := pgtxtest.Open(t, testenv.SharedPostgres(t).NewDatabase(t))
	if _, err := pgstore.New(t.Context(), empty, nil); !errors.Is(err, pgstore.ErrSchema) || !strings.Contains(err.Error(), "fencegate migrate up") {
		t.Errorf("an empty database: got %v, want ErrSchema and what to do", err)
	}
	url := pgtxtest.NewDatabase(t)
	pool := pgtxtest.Open(t, url)
	if _, err := pgstore.New(t.Context(), nil, nil); !errors.Is(err, fencing.ErrInvalid) {
		t.Errorf("no pool: got %v, want ErrInvalid", err)
	}
	for _, d := range []time.Duration{-1, time.Microsecond, 1500 * time.Microsecond, 25 * time.Hour} {
		for _, o := range []*pgstore.Options{{MaxIdle: d}, {RaiseTimeout: d}} {
			if _, err := pgstore.New(t.Context(), pool, o); !errors.Is(err, fencing.ErrInvalid) {
				t.Errorf("%+v: got %v, want ErrInvalid", o, err)
			}
		}
	}
	simple := pgtxtest.Open(t, url, func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol })
	if _, err := pgstore.New(t.Context(), simple, nil); !errors.Is(err, fencing.ErrInvalid) {
		t.Errorf("the simple protocol: got %v, want ErrInvalid", err)
	}
	if _, err := pool.Exec(t.Context(), "update fencegate.meta set version = 5"); err != nil {
		t.Fatal(err)
	}
	if _, err := pgstore.New(t.Context(), pool, nil); !errors.Is(err, pgstore.ErrSchema) || !strings.Contains(err.Error(), "version 5 of the schema, want 6") {
		t.Errorf("an older schema: got %v, want ErrSchema with both versions", err)
	}
}
