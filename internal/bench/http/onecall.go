package http

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/fencegate/fencegate/internal/bench/measure"
	"github.com/fencegate/fencegate/internal/bench/report"
	"github.com/fencegate/fencegate/internal/bench/rig"
	"github.com/fencegate/fencegate/storage"
)

var oneCallMemoryGoals = oneCallGoals("memory")

var oneCallPostgresGoals = oneCallGoals("Postgres")

func oneCallGoals(on string) []report.Goal {
	return []report.Goal{
		{Name: "HTTP, lock, write, release in one call / in three, " + on + ", one client", Unit: "x", Target: 2.5, Better: report.Higher},
		{Name: "HTTP, lock, write, release in one call / in three, " + on + ", 64 clients, one hot resource", Unit: "x", Target: 2.5, Better: report.Higher},
	}
}

func oneCallMemory(ctx context.Context, h *rig.Host, r *report.Report, s Sizes) error {
	return oneCall(ctx, h, r, s, setup{Lock: inMemory, Store: inMemory}, "memory", oneCallMemoryGoals)
}

func oneCallPostgres(ctx context.Context, h *rig.Host, r *report.Report, s Sizes) error {
	on := setup{Lock: onPostgres, Store: onPostgres, Postgres: database(ctx, h, s)}
	return oneCall(ctx, h, r, s, on, "Postgres", oneCallPostgresGoals)
}

// oneCall compares a commit that takes its lock itself with the three calls that do the same. Each
// way counts in a record of its own, which at the end must show what was acknowledged.
func oneCall(ctx context.Context, h *rig.Host, r *report.Report, s Sizes, on setup, where string, goals []report.Goal) error {
	ours, key, err := startGateway(ctx, h, on)
	if err != nil {
		return err
	}
	clients, err := dialAll(ctx, h, ours.Addr, connections)
	if err != nil {
		return err
	}
	chart := report.Bars{File: "http-onecall-" + on.Store, Title: "Lock, write, release: " + where + ", a server in a process of its own", Unit: "writes a second"}
	for i, crowd := range []struct {
		name    string
		workers int
	}{
		{"one client", 1},
		{"64 clients, one hot resource", connections},
	} {
		three := clients.inThree(key, fmt.Sprintf("three:%d", i))
		one := clients.inOne(key, fmt.Sprintf("one:%d", i))
		ratios, bars, err := race(ctx, r, s, crowd.workers,
			measure.Contender{Name: "HTTP, three calls, " + where + ", " + crowd.name, Op: three.op},
			measure.Contender{Name: "HTTP, one call, " + where + ", " + crowd.name, Op: one.op})
		if err != nil {
			return err
		}
		for _, w := range []*way{three, one} {
			if err := w.check(clients[0], key); err != nil {
				return err
			}
		}
		r.Reached(goals[i], ratios...)
		chart.Bars = append(chart.Bars, bars...)
	}
	r.Chart(chart)
	return nil
}

// way is a way to count one in a resource's record.
type way struct {
	resource string
	count    func(worker int) error
	counted  atomic.Int64 // acknowledged
}

func (w *way) op(_ context.Context, worker int) error {
	err := w.count(worker)
	if err == nil {
		w.counted.Add(1)
	}
	return err
}

const (
	counter = "count" // the record's key
	patient = "60s"   // who stands in line is served in time
)

func ops(resource string) string {
	return fmt.Sprintf(`"ops":[{"kind":"add","resource":%q,"key":%q,"delta":"1"}]`, resource, counter)
}

// inOne is one request, always the same.
func (l load) inOne(key, resource string) *way {
	commit := request("POST", "/v1/commits", fmt.Sprintf(`{"lock":{"wait":%q},%s}`, patient, ops(resource)), authorization+key, jsonBody)
	return &way{resource: resource, count: func(worker int) error { return l[worker].roundTrip(commit) }}
}

func (l load) inThree(key, resource string) *way {
	lock := request("POST", path(resource, "/lock"), fmt.Sprintf(`{"wait":%q}`, patient), authorization+key, jsonBody)
	return &way{resource: resource, count: func(worker int) error {
		c := l[worker]
		if err := c.roundTrip(lock); err != nil {
			return err
		}
		token, err := c.member("token")
		if err != nil {
			return err
		}
		commit := fmt.Sprintf(`{"tokens":[{"resource":%q,"token":%q}],%s}`, resource, token, ops(resource))
		if err := c.roundTrip(request("POST", "/v1/commits", commit, authorization+key, jsonBody)); err != nil {
			return err
		}
		return c.release(key, resource, token)
	}}
}

func (c *conn) release(key, resource, token string) error {
	return c.roundTrip(request("DELETE", path(resource, "/lock"), "", authorization+key, tokenHeader+token))
}

// check compares the record with what was acknowledged.
func (w *way) check(c *conn, key string) error {
	if err := c.roundTrip(request("GET", path(w.resource, "/records/"+counter), "", authorization+key)); err != nil {
		return err
	}
	if got, ok := storage.ParseCounter(c.body); !ok || got != w.counted.Load() {
		return fmt.Errorf("%s: %d were acknowledged, the record says %q", w.resource, w.counted.Load(), c.body)
	}
	return nil
}
