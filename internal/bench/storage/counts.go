package storage

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/bench/measure"
	"github.com/fencegate/fencegate/internal/bench/report"
	"github.com/fencegate/fencegate/internal/bench/rig"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/storage"
	"github.com/fencegate/fencegate/storage/memstore"
	"github.com/fencegate/fencegate/storage/pgstore"
	"github.com/fencegate/fencegate/storage/redisstore"
)

// counts counts what does not depend on the machine: round trips, commands, bytes, allocations.
func counts(ctx context.Context, h *rig.Host, r *report.Report, s Sizes) error {
	for _, count := range []func(context.Context, *rig.Host, *report.Report, Sizes) error{countPostgres, countRedis, countSQLite, countMemory} {
		if err := count(ctx, h, r, s); err != nil {
			return err
		}
	}
	return nil
}

// call is an operation of a store with its name.
type call struct {
	name string
	do   func() error
}

// calls are what every store can do, by a holder whose record is there.
func (h holder) calls(ctx context.Context) []call {
	newest := h.token
	newest.Resource += ":raised"
	return []call{
		{"commit", func() error { return h.put(ctx) }},
		{"commit of 3 operations", func() error {
			_, err := h.store.Commit(ctx, storage.Commit{Tokens: []fencing.Token{h.token}, Ops: []storage.Op{
				storage.Put(h.token.Resource, "a", value()),
				storage.Add(h.token.Resource, "b", 1, storage.NoMinimum),
				storage.Delete(h.token.Resource, "c"),
			}})
			return err
		}},
		{"raise", func() error {
			newest.Number++
			return h.store.Raise(ctx, newest)
		}},
		{"fenced read", func() error {
			_, err := h.store.GetFenced(ctx, h.token, key)
			return err
		}},
	}
}

// allocations notes those of a commit.
func (h holder) allocations(ctx context.Context, r *report.Report, backend string, n int) error {
	a, err := measure.Allocations(n, func() error { return h.put(ctx) })
	if err == nil {
		r.Noted(backend+", allocations per commit", "", a)
	}
	return err
}

func countPostgres(ctx context.Context, h *rig.Host, r *report.Report, s Sizes) error {
	n := s.Count
	d, err := openDatabase(ctx, h, s, 1)
	if err != nil {
		return err
	}
	pool, proxy, err := d.through(ctx, h)
	if err != nil {
		return err
	}
	fenced, err := d.holder(ctx, pool, resource)
	if err != nil {
		return err
	}
	raw, err := d.plain(ctx, resource)
	if err != nil {
		return err
	}
	b, err := pgstore.New(ctx, pool, nil)
	if err != nil {
		return err
	}
	for _, c := range append(fenced.calls(ctx), call{"Update around one statement", func() error {
		return b.Update(ctx, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, updatePlainSQL, resource, value())
			return err
		}, fenced.token)
	}}) {
		k, err := trips(proxy, n/10, c.do)
		if err != nil {
			return err
		}
		r.Noted("Postgres, round trips per "+c.name, "trips", k)
		if c.name == "fenced read" {
			continue // it writes nothing
		}
		if k, err = d.wal(ctx, n/10, func(context.Context) error { return c.do() }); err != nil {
			return err
		}
		r.Noted("Postgres, WAL per "+c.name, "bytes", k)
	}
	if err := fenced.allocations(ctx, r, "Postgres", n); err != nil {
		return err
	}
	a, err := measure.Allocations(n, func() error { return raw(ctx) })
	if err != nil {
		return err
	}
	r.Noted("Postgres, allocations per raw UPDATE", "", a)
	return hot(ctx, r, d)
}

// hot notes what share of all updates stayed in their page and left the indexes alone.
func hot(ctx context.Context, r *report.Report, d database) error {
	for _, table := range []string{"records", "marks"} {
		var all, stayed float64
		// Sessions report what they did within a second or so of the last report.
		for deadline := time.Now().Add(10 * time.Second); all == 0 && time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
			if err := d.pool.QueryRow(ctx, hotSQL, "fencegate", table).Scan(&all, &stayed); err != nil {
				return err
			}
		}
		if all == 0 {
			continue // nothing was reported
		}
		r.Noted("Postgres, updates of "+table+" that are HOT", "", stayed/all)
	}
	return nil
}

func countRedis(ctx context.Context, h *rig.Host, r *report.Report, s Sizes) error {
	n := s.Count
	server := testenv.StartRedis(h, nil)
	proxy := rig.StartProxy(h, server.Addr(), 0)
	b, err := redisstore.New(ctx, rig.Client(h, proxy.Addr(), 1), nil)
	if err != nil {
		return err
	}
	fenced, err := granted(ctx, b, resource)
	if err != nil {
		return err
	}
	direct := rig.Client(h, server.Addr(), 1)
	for _, c := range fenced.calls(ctx) {
		k, err := trips(proxy, n/10, c.do)
		if err != nil {
			return err
		}
		r.Noted("Redis, round trips per "+c.name, "trips", k)
		if k, err = perOperation(n/10, func() (int64, error) { return proxy.Commands(), nil }, c.do); err != nil {
			return err
		}
		r.Noted("Redis, commands per "+c.name, "commands", k)
		asked := int64(0) // the INFO of the first look is counted by the second
		if k, err = perOperation(n/10, func() (int64, error) {
			all, err := inScripts(ctx, direct)
			all -= asked
			asked++
			return all, err
		}, c.do); err != nil {
			return err
		}
		r.Noted("Redis, commands in the script of a "+c.name, "commands", k)
	}
	if err := fenced.allocations(ctx, r, "Redis", n); err != nil {
		return err
	}
	a, err := measure.Allocations(n, func() error { return direct.Set(ctx, "plain", value(), 0).Err() })
	if err == nil {
		r.Noted("Redis, allocations per SET", "", a)
	}
	return err
}

// inScripts returns how many commands ran that did not call a script.
func inScripts(ctx context.Context, c *redis.Client) (int64, error) {
	stats, err := c.InfoMap(ctx, "commandstats").Result()
	if err != nil {
		return 0, err
	}
	all := int64(0)
	for name, stat := range stats["Commandstats"] {
		if name == "cmdstat_evalsha" {
			continue
		}
		calls, _, _ := strings.Cut(strings.TrimPrefix(stat, "calls="), ",")
		k, err := strconv.ParseInt(calls, 10, 64)
		if err != nil {
			return 0, err
		}
		all += k
	}
	return all, nil
}

func countSQLite(ctx context.Context, h *rig.Host, r *report.Report, s Sizes) error {
	n := s.Count
	dir, err := directory(h)
	if err != nil {
		return err
	}
	raw, _, err := rawSQLite(ctx, h, filepath.Join(dir, "raw.db"))
	if err != nil {
		return err
	}
	b, err := openSQLite(ctx, h, filepath.Join(dir, "fenced.db"))
	if err != nil {
		return err
	}
	fenced, err := granted(ctx, b, resource)
	if err != nil {
		return err
	}
	if err := fenced.put(ctx); err != nil {
		return err
	}
	// Only as much as the log takes before it is emptied into the database.
	for _, of := range []struct {
		name, file string
		do         func() error
	}{
		{"raw UPDATE", "raw.db-wal", func() error { return raw(ctx, 0) }},
		{"commit", "fenced.db-wal", func() error { return fenced.put(ctx) }},
	} {
		k, err := perOperation(n/10, func() (int64, error) {
			info, err := os.Stat(filepath.Join(dir, of.file))
			if err != nil {
				return 0, err
			}
			return info.Size(), nil
		}, of.do)
		if err != nil {
			return err
		}
		r.Noted("SQLite, WAL per "+of.name, "bytes", k)
	}
	if err := fenced.allocations(ctx, r, "SQLite", n); err != nil {
		return err
	}
	a, err := measure.Allocations(n, func() error { return raw(ctx, 0) })
	if err != nil {
		return err
	}
	r.Noted("SQLite, allocations per raw UPDATE", "", a)
	return nil
}

func countMemory(ctx context.Context, _ *rig.Host, r *report.Report, s Sizes) error {
	fenced, err := granted(ctx, memstore.New(nil), resource)
	if err != nil {
		return err
	}
	return fenced.allocations(ctx, r, "memstore", s.Count)
}
