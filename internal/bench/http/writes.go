package http

import (
	"context"
	"crypto/rand"
	_ "embed"
	"fmt"
	mathrand "math/rand/v2"

	"github.com/fencegate/fencegate/internal/bench/measure"
	"github.com/fencegate/fencegate/internal/bench/report"
	"github.com/fencegate/fencegate/internal/bench/rig"
	"github.com/fencegate/fencegate/internal/testenv"
)

var (
	//go:embed sql/table.sql
	tableSQL string
	//go:embed sql/insert.sql
	insertSQL string
	//go:embed sql/update.sql
	updateSQL string
)

var memoryGoals = []report.Goal{
	{Name: "HTTP, fenced write to memory / echo's hello, 64 connections", Unit: "x", Target: 0.90, Better: report.Higher},
}

// writeMemory compares with a program that has nothing but echo.
func writeMemory(ctx context.Context, h *rig.Host, r *report.Report, s Sizes) error {
	echo, err := start(ctx, h, setup{Echo: true})
	if err != nil {
		return err
	}
	ours, key, err := startGateway(ctx, h, setup{Lock: inMemory, Store: inMemory})
	if err != nil {
		return err
	}
	strangers, err := dialAll(ctx, h, echo.Addr, connections)
	if err != nil {
		return err
	}
	writers, err := dialAll(ctx, h, ours.Addr, connections)
	if err != nil {
		return err
	}
	p, err := writers.preparePuts(ctx, key, connections)
	if err != nil {
		return err
	}
	hello := measure.Contender{Name: "HTTP, echo's hello", Op: strangers.same(request("GET", "/", ""))}
	write := measure.Contender{Name: "HTTP, fenced write to memory", Op: writers.put(p, own)}
	ratios, bars, err := race(ctx, r, s, connections, hello, write)
	if err != nil {
		return err
	}
	r.Reached(memoryGoals[0], ratios...)

	// What no write is faster than that echo and net/http read and answer.
	nothing := measure.Contender{Name: "HTTP, the same write to echo, read and thrown away", Op: strangers.put(p, own)}
	ratios, floor, err := race(ctx, r, s, connections, hello, nothing)
	if err != nil {
		return err
	}
	r.Noted(nothing.Name+" / echo's hello", "x", ratios...)
	r.Chart(report.Bars{
		File: "http-memory", Title: "64 connections, a server in a process of its own", Unit: "requests a second",
		Bars:   append(bars, report.Bar{Label: nothing.Name, Value: floor[1].Value, Kind: report.Limit}),
		Target: memoryGoals[0].Target * bars[0].Value, Goal: "0.9 of echo's hello",
	})
	for _, of := range []struct {
		child
		measure.Contender
	}{{echo, hello}, {echo, nothing}, {ours, write}} {
		if err := cost(ctx, r, s, of.child, of.Contender); err != nil {
			return err
		}
	}
	return nil
}

// own picks a resource of its own for each worker.
func own(worker int) int { return worker }

var redisGoals = []report.Goal{
	{Name: "HTTP, fenced write to Redis / the gateway's /livez, 64 connections", Unit: "x", Target: 0.70, Better: report.Higher},
}

// writeRedis compares with the least that the same process answers, through everything that
// is around its handlers but the keys.
func writeRedis(ctx context.Context, h *rig.Host, r *report.Report, s Sizes) error {
	server := testenv.StartRedis(h, nil)
	ours, key, err := startGateway(ctx, h, setup{Lock: onRedis, Store: onRedis, Redis: server.Addr()})
	if err != nil {
		return err
	}
	writers, err := dialAll(ctx, h, ours.Addr, connections)
	if err != nil {
		return err
	}
	p, err := writers.preparePuts(ctx, key, connections)
	if err != nil {
		return err
	}
	ratios, bars, err := race(ctx, r, s, connections,
		measure.Contender{Name: "HTTP, the gateway's /livez", Op: writers.same(request("GET", "/livez", ""))},
		measure.Contender{Name: "HTTP, fenced write to Redis", Op: writers.put(p, own)})
	if err != nil {
		return err
	}
	r.Reached(redisGoals[0], ratios...)
	r.Chart(report.Bars{
		File: "http-redis", Title: "64 connections, a server in a process of its own, Redis", Unit: "requests a second",
		Bars: bars, Target: redisGoals[0].Target * bars[0].Value, Goal: "0.7 of /livez",
	})
	return nil
}

var postgresGoals = []report.Goal{
	{Name: "HTTP, fenced write to Postgres, 64 connections, 1,000 resources / raw UPDATEs", Unit: "x", Target: 2.5, Better: report.Higher},
	{Name: "HTTP, fenced write to Postgres, 64 connections, one hot resource / raw UPDATEs", Unit: "x", Target: 2.5, Better: report.Higher},
}

// writePostgres compares with 64 connections that update the rows of a table without a gateway.
func writePostgres(ctx context.Context, h *rig.Host, r *report.Report, s Sizes) error {
	url := database(ctx, h, s)
	pool, err := rig.Pool(ctx, h, url, connections)
	if err != nil {
		return err
	}
	if _, err := pool.Exec(ctx, tableSQL); err != nil {
		return err
	}
	if _, err := pool.Exec(ctx, insertSQL, s.Resources); err != nil {
		return err
	}
	ours, key, err := startGateway(ctx, h, setup{Lock: onPostgres, Store: onPostgres, Postgres: url})
	if err != nil {
		return err
	}
	writers, err := dialAll(ctx, h, ours.Addr, connections)
	if err != nil {
		return err
	}
	p, err := writers.preparePuts(ctx, key, s.Resources)
	if err != nil {
		return err
	}
	chart := report.Bars{File: "http-postgres", Title: "64 connections, a server in a process of its own, PostgreSQL, fsync on", Unit: "writes a second"}
	for i, crowd := range []struct {
		name string
		pick func(worker int) int
	}{
		{"1,000 resources", func(int) int { return mathrand.IntN(s.Resources) }},
		{"one hot resource", func(int) int { return 0 }},
	} {
		ratios, bars, err := race(ctx, r, s, connections,
			measure.Contender{Name: "Postgres, raw UPDATE, " + crowd.name, Op: func(ctx context.Context, worker int) error {
				value := make([]byte, valueSize)
				_, _ = rand.Read(value) // it never fails
				tag, err := pool.Exec(ctx, updateSQL, nth(crowd.pick(worker)), value)
				if err == nil && tag.RowsAffected() != 1 {
					err = fmt.Errorf("%d rows were updated", tag.RowsAffected())
				}
				return err
			}},
			measure.Contender{Name: "HTTP, fenced write to Postgres, " + crowd.name, Op: writers.put(p, crowd.pick)})
		if err != nil {
			return err
		}
		r.Reached(postgresGoals[i], ratios...)
		chart.Bars = append(chart.Bars, bars...)
	}
	r.Chart(chart)
	return nil
}
