package report_test

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/fencegate/fencegate/internal/torture/check"
	"github.com/fencegate/fencegate/internal/torture/history"
	"github.com/fencegate/fencegate/internal/torture/report"
)

// hostile is what a broken server or client may put into a text.
const hostile = `"></td></iframe></script><script>alert(1)</script><img src=http://evil.example/x onerror=alert(2)>&'` + "`"

const ms = int64(time.Millisecond)

// sample is a run of eight seconds with four processes and several faults.
func sample() (report.Run, *history.History, check.Result) {
	began := 5_000_000 * ms
	h := &history.History{Began: began, Ended: began + 8_000*ms}
	rnd := rand.New(rand.NewPCG(1, 2))
	faults := []history.Fault{
		{Name: "client-stop", Detail: "processes 1 and 2", From: 900, Injected: 910, Heal: 1700, To: 1710, Recovered: 1890, Paused: []int{1, 2}},
		{Name: "redis-kill", From: 2300, Injected: 2320, Heal: 2900, To: 3150, Recovered: 3800, Loses: []history.Loss{history.LosesLocks}},
		{Name: "client-kill", From: 4300, Injected: 4305, Heal: 4310, To: 4600, Recovered: 4900, Killed: []int{3}},
		{Name: "redis-kill", From: 5400, Injected: 5410, Heal: 5900, To: 6100},
		{Name: "netem", From: 6800, Injected: 6800, Heal: 6800, To: 6800, Void: "no netem in this kernel"},
	}
	for _, f := range faults {
		for _, t := range []*int64{&f.From, &f.Injected, &f.Heal, &f.To, &f.Recovered} {
			if *t > 0 {
				*t = began + *t*ms
			}
		}
		h.Faults = append(h.Faults, f)
	}
	down := func(p int, t int64) bool {
		t /= ms
		return t > 910 && t < 1700 && (p == 1 || p == 2) || t > 2320 && t < 3400 || p == 3 && t > 4305 && t < 4700 || t > 5410 && t < 6400
	}
	kinds := []history.Kind{history.Acquire, history.Read, history.Commit, history.Release}
	for i := range 12_000 {
		at := 300*ms + rnd.Int64N(7_500*ms)
		p := i % 4
		if down(p, at) {
			continue
		}
		o := history.Op{
			ID: fmt.Sprintf("c%d-%d", p, i), Process: p, Seat: i % 12, Workload: "register", Kind: kinds[i%len(kinds)], Group: "run:register-1",
			Call: began + at, Return: began + at + ms/2 + rnd.Int64N(4*ms), Outcome: "applied",
			Tokens: []history.Token{{Resource: "run:register-1", Number: int64(i), Grant: "0011223344"}},
		}
		switch rnd.IntN(40) {
		case 0, 1, 2:
			o.Outcome, o.Reason = "refused", "superseded"
		case 3:
			o.Outcome, o.Return = "unknown", o.Call+80*ms
		case 4:
			o.Outcome, o.Return = "", 0
		}
		h.Ops = append(h.Ops, o)
	}
	r := report.Run{
		Time: time.Date(2026, 11, 21, 15, 4, 5, 0, time.UTC), Version: "a08d8637f1c2", Machine: "linux/amd64, 2 processors, Redis 7.0.15, PostgreSQL 15.8",
		Lock: "redis", Store: "postgres", Faults: []string{"client-stop", "redis-kill", "client-kill", "netem"}, Workloads: []string{"register", "bank"},
		Seed: 42, Clients: 4, Seats: 12, Duration: 8 * time.Second, Injected: 4, Verdict: report.Held,
		Args: []string{"fencegate-torture", "run", "--lock", "redis", "--store", "postgres", "--faults", "redis-kill", "--seed", "42"},
		Figures: check.Figures{
			Ops: 11_000, Applied: 10_000, Refused: 700, Failed: 100, Unknown: 200, Grants: 2_500, Takeovers: 311, PausedTakeovers: 120,
			StaleRefused: 412, SupersededRefused: 400, ForgedRefused: 33, Ambiguous: 44, Resolved: 43, Histories: 40, Searched: 39,
			Recoveries: []time.Duration{180 * time.Millisecond, 650 * time.Millisecond, 300 * time.Millisecond},
		},
	}
	return r, h, check.Result{Figures: r.Figures}
}

// broken is that run with two violations.
func broken() (report.Run, *history.History, check.Result) {
	r, h, res := sample()
	first, second := &h.Ops[10], &h.Ops[11]
	first.Kind, first.Outcome = history.Commit, "applied"
	first.Writes = []history.Write{{Kind: "put", Resource: "run:register-1", Key: "value", Value: "3 c1-7", Version: 9}}
	second.Kind, second.Error = history.Read, hostile
	second.Cells = []history.Cell{{Resource: "run:register-1", Key: "value", Value: hostile, Version: 8}}
	res.Violations = []check.Violation{
		{
			Invariant: "INV5", Check: "linearizable", Group: "run:register-1", Text: "3 was acknowledged, and a later read gave 2. " + hostile,
			Ops: []string{first.ID, second.ID, "gone-1"}, Picture: "<!DOCTYPE html><title>p</title><script>let x = \"a\" // </iframe>\n</script>",
		},
		{Check: "stock", Group: hostile, Text: "12 receipts, 11 taken from the stock"},
	}
	r.Verdict, r.Violations, r.Why = report.Violated, res.Violations, "2 violations, the first: "+hostile
	r.Faults = append(r.Faults, hostile)
	return r, h, res
}
