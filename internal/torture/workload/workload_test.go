package workload_test

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fencegate/fencegate/internal/torture/history"
	"github.com/fencegate/fencegate/internal/torture/workload"
)

// TestWorkloads: what is there in the end is what was acknowledged, and nothing forged was let through.
func TestWorkloads(t *testing.T) {
	t.Parallel()
	for _, w := range workload.All() {
		if w.Name() == "table" {
			continue // see TestTable
		}
		t.Run(w.Name(), func(t *testing.T) {
			t.Parallel()
			b, _, final := work(t, w.Name(), access(t, nil), options, time.Second, enough)
			b.answered(t)
			b.refused(t)
			b.trusted(t)
			if problem := fits(w.Name(), b, final); problem != "" {
				t.Error(problem)
			}
		})
	}
}

// wanted is what each run must have tried, as book.seen names it.
var wanted = []string{
	"renewed after the release", "re-entered", "forged duplicate", "forged ungranted", "forged retired", "forged superseded", "stale superseded",
}

// enough reports whether everything that is wanted was tried, and something was written.
func enough(b *book) bool {
	seen := b.seen()
	return len(b.applied()) >= 20 && !slices.ContainsFunc(wanted, func(what string) bool { return seen[what] == 0 })
}

// seen counts what must have no effect, and how it was answered.
func (b *book) seen() map[string]int {
	seen := map[string]int{}
	for _, op := range b.all() {
		switch {
		case op.Return == 0:
		case op.Forged && op.Kind == history.Renew:
			seen["renewed after the release"]++
		case op.Forged:
			seen["forged "+op.Reason]++
		case op.Kind == history.Commit && op.Outcome == "refused":
			seen["stale "+op.Reason]++
		case op.Kind == history.Reenter:
			seen["re-entered"]++
		}
	}
	return seen
}

// refused checks that what must have no effect was refused.
func (b *book) refused(t *testing.T) {
	t.Helper()
	for _, op := range b.all() {
		if op.Forged && op.Outcome != "refused" {
			t.Errorf("%s, a %s with a forged token, was %s", op.ID, op.Kind, op.Outcome)
		}
		if op.Forged && op.Kind == history.Renew && op.Reason != "lost" {
			t.Errorf("%s was refused with %q, want lost", op.ID, op.Reason)
		}
		if op.Kind == history.Reenter && op.Outcome == "applied" && op.Tokens[0] != op.Tokens[1] {
			t.Errorf("%s re-entered with another token: %v", op.ID, op.Tokens)
		}
	}
}

// trusted checks that no two leases of a resource are trusted at once, and that releases say so.
func (b *book) trusted(t *testing.T) {
	t.Helper()
	type lease struct {
		granted, until int64
		op             string
	}
	end := map[history.Token]int64{}
	for _, op := range b.of(history.Release) {
		if op.Until > op.Call {
			t.Errorf("%s trusts its lease after it was released", op.ID)
		}
		for _, tok := range op.Tokens {
			if end[tok] != 0 {
				t.Errorf("%s releases number %d of %s again", op.ID, tok.Number, tok.Resource)
			}
			end[tok] = op.Until
		}
	}
	held := map[string]map[int64]lease{}
	for _, op := range b.of(history.Acquire) {
		for _, tok := range op.Tokens {
			if held[tok.Resource] == nil {
				held[tok.Resource] = map[int64]lease{}
			}
			held[tok.Resource][tok.Number] = lease{op.Return, cmp.Or(end[tok], op.Until), op.ID}
		}
	}
	kept := 0
	for resource, byNumber := range held {
		var before lease
		for n := int64(1); n <= 1_000_000; n++ {
			l, ok := byNumber[n]
			if !ok {
				if n > int64(len(byNumber))+10_000 {
					break
				}
				continue
			}
			if before.until > l.granted {
				t.Errorf("%s: %s is granted while %s is trusted for another %v", resource, l.op, before.op, time.Duration(before.until-l.granted))
			}
			if l.until > l.granted {
				kept++
			}
			before = l
		}
	}
	if kept == 0 {
		t.Error("no lease was trusted at all")
	}
}

// fits compares the end with what was acknowledged. It returns what does not fit.
func fits(name string, b *book, final []history.Cell) (problem string) {
	applied := b.applied()
	count := map[string]int64{} // by group: applied commits
	for _, op := range applied {
		count[op.Group]++
	}
	if len(applied) < 20 {
		return strconv.Itoa(len(applied)) + " commits were applied, want more"
	}
	type place struct{ resource, key string }
	at := map[place]string{}
	records := map[string]int64{} // by resource and kind of key
	sum := int64(0)
	for _, c := range final {
		at[place{c.Resource, c.Key}] = c.Value
		kind, id, _ := strings.Cut(c.Key, ".")
		records[c.Resource+" "+kind]++
		if kind == "e" || kind == "receipt" {
			if _, ok := applied[id]; !ok {
				return c.Key + " is there, and was not acknowledged"
			}
		}
		if c.Key == "balance" {
			sum += number(c.Value)
		}
	}
	if name == "bank" && sum != groups*1000 {
		return "the balances do not make 1000 a group: " + strconv.FormatInt(sum, 10)
	}
	for g, n := range count {
		bad := func(key string, got int64) string {
			return g + ": " + key + " says " + strconv.FormatInt(got, 10) + ", applied were " + strconv.FormatInt(n, 10)
		}
		var got int64
		var key string
		switch name {
		case "register":
			key, got = "value", number(at[place{g, "value"}])
		case "set":
			key, got = "e", records[g+" e"]
		case "coupon":
			key, got = "stock", 1_000_000-number(at[place{g, "stock"}])
			if receipts := records[g+" receipt"]; receipts != n {
				return bad("receipt", receipts)
			}
		case "log":
			key, got = "length", number(at[place{g, "length"}])
			if entries := records[g+" entry"]; entries != n {
				return bad("entry", entries)
			}
		case "table":
			key, got = "row", number(at[place{g, "row"}])
			if rows := records[g+" audit"]; rows != n {
				return bad("audit", rows)
			}
		case "task":
			if at[place{g, "left"}] != at[place{g, "right"}] || applied[at[place{g, "left"}]].ID == "" {
				return g + ": left and right are " + at[place{g, "left"}] + " and " + at[place{g, "right"}]
			}
			continue
		default:
			continue
		}
		if got != n {
			return bad(key, got)
		}
	}
	return ""
}

func number(value string) int64 {
	n, err := strconv.ParseInt(strings.Fields(value + " ")[0], 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// TestNames: a workload is found by its name, and no two groups share a resource.
func TestNames(t *testing.T) {
	t.Parallel()
	want := []string{"register", "bank", "set", "coupon", "task", "log", "table"}
	var got []string
	seen := map[string]bool{}
	for _, w := range workload.All() {
		got = append(got, w.Name())
		if same, ok := workload.Named(w.Name()); !ok || same.Name() != w.Name() {
			t.Errorf("Named(%q) is another one", w.Name())
		}
		for i := range 3 {
			for _, r := range w.Resources("run", i) {
				if seen[r] || !strings.HasPrefix(r, "run") {
					t.Errorf("%s group %d has resource %s", w.Name(), i, r)
				}
				seen[r] = true
			}
			if rs := w.Resources("run", i); !slices.IsSorted(rs) {
				t.Errorf("%s: %v are not sorted", w.Name(), rs)
			}
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if _, ok := workload.Named("nothing"); ok {
		t.Error("there is a workload called nothing")
	}
}
