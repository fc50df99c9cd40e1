package gateway_test

import (
	"context"
	"encoding/json"
	"net/http"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/gateway/wire"
	"github.com/fencegate/fencegate/internal/pgtx/pgtxtest"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/locking/memlock"
	"github.com/fencegate/fencegate/locking/pglock"
	"github.com/fencegate/fencegate/locking/redislock"
	"github.com/fencegate/fencegate/storage"
	"github.com/fencegate/fencegate/storage/memstore"
	"github.com/fencegate/fencegate/storage/pgstore"
	"github.com/fencegate/fencegate/storage/redisstore"
	"github.com/fencegate/fencegate/storage/sqlitestore"
)

// system is where locks and records are. trips returns how many round trips to its server there
// were; nil where there is none.
type system struct {
	lock  locking.Backend
	store storage.Backend
	trips func() int64
}

// trips counts round trips: what a pool sends, by one tracer.
type trips struct{ n atomic.Int64 }

func (t *trips) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	t.n.Add(1)
	return ctx
}
func (t *trips) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
func (t *trips) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	t.n.Add(1)
	return ctx
}
func (t *trips) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (t *trips) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}

// sends counts round trips of a Redis client: commands, and pipelines.
type sends struct{ n atomic.Int64 }

func (s *sends) DialHook(next redis.DialHook) redis.DialHook { return next }

func (s *sends) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		s.n.Add(1)
		return next(ctx, cmd)
	}
}

func (s *sends) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		s.n.Add(1)
		return next(ctx, cmds)
	}
}

func inMemory(testing.TB) system { return system{lock: memlock.New(), store: memstore.New(nil)} }

func onSQLite(tb testing.TB) system {
	tb.Helper()
	b, err := sqlitestore.Open(tb.Context(), filepath.Join(tb.TempDir(), "data.db"), nil)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := b.Close(); err != nil {
			tb.Error(err)
		}
	})
	return system{lock: memlock.New(), store: b}
}

func onPostgres(tb testing.TB) system {
	tb.Helper()
	n := &trips{}
	pool := pgtxtest.Open(tb, pgtxtest.Database(tb), pgtxtest.As("fencegate_gateway"), func(c *pgxpool.Config) { c.ConnConfig.Tracer = n })
	lock, err := pglock.New(tb.Context(), pool, nil)
	if err != nil {
		tb.Fatal(err)
	}
	store, err := pgstore.New(tb.Context(), pool, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return system{lock: lock, store: store, trips: n.n.Load}
}

func onRedis(tb testing.TB) system {
	tb.Helper()
	n := &sends{}
	client := redis.NewClient(&redis.Options{Addr: testenv.SharedRedis(tb).Addr(), MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true})
	tb.Cleanup(func() { _ = client.Close() })
	client.AddHook(n)
	lock, err := redislock.New(client, nil)
	if err != nil {
		tb.Fatal(err)
	}
	store, err := redisstore.New(tb.Context(), client, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return system{lock: lock, store: store, trips: n.n.Load}
}

// systems is every kind of store.
var systems = map[string]func(testing.TB) system{"memory": inMemory, "sqlite": onSQLite, "postgres": onPostgres, "redis": onRedis}

// TestOneCallSystems: on every kind of store, one-call commits from many clients are all counted,
// share grants, and keep out of the way of holders that read, modify and write.
func TestOneCallSystems(t *testing.T) {
	t.Parallel()
	for name, open := range systems {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const clients, each, holders, times = 32, 6, 2, 5
			var grants atomic.Int64
			s := open(t)
			r := newRig(t, setup{lock: s.lock, backend: s.store, onIssuer: func(e fencing.Event) {
				if e.Kind == fencing.EventGranted {
					grants.Add(1)
				}
			}})
			resource := testenv.Unique(t, "onecall")
			r.commitAll(clients, each, resource)
			if g := grants.Load(); g >= clients*each && name != "memory" {
				t.Errorf("got %d grants for %d oneCalls, want fewer", g, clients*each)
			}
			t.Logf("%d grants for %d commits", grants.Load(), clients*each)
			together(clients+holders, func(i int) {
				if i >= clients {
					for range times {
						r.modify(resource)
					}
					return
				}
				r.commitAll(1, each, resource)
			})
			if got, want := r.counter(resource), int64(2*clients*each+holders*times); got != want {
				t.Errorf("got the sum %d, want %d", got, want)
			}
			until(t, "the lock is free", func() bool { return !r.status(resource).Held })
			r.wantFree(resource)
		})
	}
}

// commitAll sends so many one-call oneCalls, each of which adds 1.
func (r *rig) commitAll(clients, each int, resource string) {
	r.Helper()
	together(clients, func(int) {
		for range each {
			if got := r.do("POST", oneCalls, add(1, "60s", resource)); got.status != http.StatusOK {
				r.Errorf("got %d %s", got.status, got.body)
			}
		}
	})
}

// modify adds 1 as a holder does it: lock, read, write, release.
func (r *rig) modify(resource string) {
	r.Helper()
	base := "/v1/resources/" + resource
	var l wire.LockReply
	got := r.do("POST", base+"/lock", `{"wait":"60s","label":"holder"}`)
	if err := json.Unmarshal([]byte(got.body), &l); err != nil || got.status != http.StatusCreated {
		r.Errorf("lock: got %d %s", got.status, got.body)
		return
	}
	got = r.do("GET", base+"/records/n", "", wire.HeaderToken, l.Token)
	n, err := strconv.Atoi(got.body)
	if err != nil {
		r.Errorf("read: got %d %s", got.status, got.body)
		return
	}
	time.Sleep(2 * time.Millisecond) // the gap in which an update could be lost
	if got := r.do("PUT", base+"/records/n", strconv.Itoa(n+1), wire.HeaderToken, l.Token); got.status != http.StatusNoContent {
		r.Errorf("write: got %d %s", got.status, got.body)
	}
	if got := r.do("DELETE", base+"/lock", "", wire.HeaderToken, l.Token); got.status != http.StatusOK {
		r.Errorf("release: got %d %s", got.status, got.body)
	}
}

// TestOneCallTrips counts what 64 clients cost that commit to one resource at once.
func TestOneCallTrips(t *testing.T) {
	t.Parallel()
	for name, most := range map[string]float64{"postgres": 1, "redis": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := systems[name](t)
			var grants grantCounter
			r := newRig(t, setup{lock: s.lock, backend: s.store, issuer: grants.of})
			resource := testenv.Unique(t, "trips")
			r.commitAll(64, 1, resource) // connections are open
			before, granted := s.trips(), grants.granted.Load()
			const each = 8
			r.commitAll(64, each, resource)
			trips := float64(s.trips()-before) / (64 * each)
			t.Logf("%.2f round trips a commit, %d grants for %d commits", trips, grants.granted.Load()-granted, 64*each)
			if trips > most {
				t.Errorf("got %.2f round trips a commit, want at most %.1f", trips, most)
			}
			before = s.trips()
			r.commitAll(1, 10, resource)
			t.Logf("%.1f round trips where one is alone", float64(s.trips()-before)/10)
		})
	}
}
