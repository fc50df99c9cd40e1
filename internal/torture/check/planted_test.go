package check_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/internal/torture/check"
	"github.com/fencegate/fencegate/internal/torture/history"
)

// planted is a bad history: a good one with one thing wrong.
type planted struct {
	name             string
	check, invariant string
	text             string // part of what is said
	wrong            func(b *book)
}

func (p planted) run(t *testing.T) {
	t.Run(p.check+"/"+p.name, func(t *testing.T) {
		t.Parallel()
		b := good()
		p.wrong(b)
		res := check.Check(&b.History, nil)
		for _, v := range res.Violations {
			if v.Check == p.check && v.Invariant == p.invariant && strings.Contains(v.Text, p.text) {
				return
			}
		}
		t.Errorf("want %s %s %q, got %+v", p.invariant, p.check, p.text, texts(res))
	})
}

func texts(res check.Result) string {
	var b strings.Builder
	for _, v := range res.Violations {
		fmt.Fprintf(&b, "\n%s %s %s: %s %v", v.Invariant, v.Check, v.Group, v.Text, v.Ops)
	}
	return b.String()
}

// TestGood: a right history is not objected to, and is counted.
func TestGood(t *testing.T) {
	t.Parallel()
	b := good()
	res := check.Check(&b.History, nil)
	if len(res.Violations) > 0 {
		t.Errorf("violations: %s", texts(res))
	}
	want := check.Figures{Ops: len(b.Ops), Applied: len(b.Ops), Grants: 24, Histories: 7, Searched: 5}
	if got := res.Figures; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := check.Check(&history.History{}, nil); len(got.Violations) > 0 {
		t.Errorf("an empty history: %s", texts(got))
	}
}

// TestPlantedData: what is wrong with the data of a group.
func TestPlantedData(t *testing.T) {
	t.Parallel()
	for _, p := range []planted{
		{"read of an old value", "linearizable", "INV5", "no order", func(b *book) {
			b.op("register.3.read0").Cells[0] = b.op("register.2.read0").Cells[0]
		}},
		{"two from one value", "linearizable", "INV5", "the same value", func(b *book) {
			c := b.op("register.3.commit")
			c.Cells = b.op("register.2.commit").Cells
		}},
		{"the last is lost", "linearizable", "INV5", "the end", func(b *book) {
			*b.last("register", "value") = b.op("register.3.read0").Cells[0]
		}},
		{"one of two records", "linearizable", "INV5", "no order", func(b *book) {
			b.op("bank.3.read1").Cells[0].Value = "501"
			b.op("bank.3.read1").Cells[0].Version--
		}},
		{"a value of another version", "linearizable", "INV5", "no order", func(b *book) {
			b.op("bank.3.read0").Cells[0].Version--
		}},
		{"a row that was not", "linearizable", "INV5", "no order", func(b *book) {
			b.op("table.2.commit").Cells[0].Value = "0 other"
		}},
		{"a length", "linearizable", "INV5", "no order", func(b *book) {
			b.op("log.2.read0").Cells[0] = history.Cell{Resource: "log", Key: "length", Value: "3", Version: 4}
		}},
		{"a task", "linearizable", "INV5", "", func(b *book) {
			b.op("task.3.read0").Cells[0].Value = "task.1.commit"
		}},
		{"an unknown one that did not fit", "linearizable", "INV5", "no order", func(b *book) {
			c := b.op("register.2.commit")
			c.Outcome = "unknown"
			c.Cells[0].Value, c.Cells[0].Version = "7 nobody", 0
		}},
		{"an element not seen", "linearizable", "INV6", "did not see", func(b *book) {
			b.read("set", history.Cell{Resource: "set", Key: "e.set.1.commit"})
		}},
		{"an element seen too early", "linearizable", "INV6", "wrote later", func(b *book) {
			b.read("set", history.Cell{Resource: "set", Key: "e.set.3.commit", Value: "set.3.commit", Version: 1})
			b.op("read").Call, b.op("read").Return = 1, 2
		}},
		{"an element seen and gone", "linearizable", "INV6", "had seen", func(b *book) {
			b.op("set.1.commit").Outcome = "unknown"
			b.read("set", history.Cell{Resource: "set", Key: "e.set.1.commit", Value: "set.1.commit", Version: 1})
			b.read("set", history.Cell{Resource: "set", Key: "e.set.1.commit"})
		}},
		{"two values", "versions", "INV5", "version 2", func(b *book) {
			b.op("register.2.commit").Writes[0].Version = 2
		}},
		{"not grown", "versions", "INV5", "from version 2 to 2", func(b *book) {
			b.op("register.2.commit").Writes[0].Version = 2
		}},
		{"a sum twice", "coupon", "INV5", "both took", func(b *book) {
			b.op("coupon.3.commit").Writes[0].Counter = 998
		}},
		{"sums swapped", "coupon", "INV5", "after", func(b *book) {
			b.op("coupon.3.commit").Writes[0].Counter = 998
			b.op("coupon.2.commit").Writes[0].Counter = 997
		}},
		{"too low", "coupon", "INV5", "at most", func(b *book) {
			b.op("coupon.3.commit").Writes[0].Counter = 990
		}},
		{"negative", "coupon", "INV5", "minimum is 0", func(b *book) {
			b.op("coupon.3.commit").Writes[0].Counter = -1
		}},
		{"a stock that was seen lower", "coupon", "INV5", "saw a stock of 998 after", func(b *book) {
			b.read("coupon", history.Cell{Resource: "coupon", Key: "stock", Value: "998", Version: 3})
		}},
		{"a sum that was seen before", "coupon", "INV5", "saw a stock of 997 after", func(b *book) {
			b.read("coupon", history.Cell{Resource: "coupon", Key: "stock", Value: "997", Version: 4})
			b.op("read").Call, b.op("read").Return = 1, 2
		}},
		{"nothing taken", "coupon", "INV5", "and left 1000", func(b *book) {
			b.op("coupon.1.commit").Writes[0].Counter = 1000
		}},
		{"taken twice", "coupon", "INV7", "4 were taken", func(b *book) { b.last("coupon", "stock").Value = "996" }},
		{"not taken", "coupon", "INV5", "2 were taken", func(b *book) { b.last("coupon", "stock").Value = "998" }},
		{"half", "coupon", "INV7", "2 receipts", func(b *book) { b.lose("coupon", "receipt.coupon.2.commit") }},
		{"half, and older data", "coupon", "INV7", "2 receipts", func(b *book) {
			b.lose("coupon", "receipt.coupon.2.commit")
			b.Faults = []history.Fault{{Name: "restore", From: b.now + 1, To: b.now + 2, Recovered: b.now + 3, Loses: []history.Loss{history.LosesData}}}
		}},
		{"sold out too early", "coupon", "INV5", "saw a stock of 0, all", func(b *book) {
			b.op("coupon.3.commit").Outcome, b.op("coupon.3.commit").Reason = "refused", "below-minimum"
		}},
		{"sold after it was sold out", "coupon", "INV5", "saw a stock of 997 after coupon.2.commit had seen 0", func(b *book) {
			b.op("coupon.2.commit").Outcome, b.op("coupon.2.commit").Reason = "refused", "below-minimum"
		}},
		{"no stock", "coupon", "INV6", "no stock", func(b *book) { b.lose("coupon", "stock") }},
		{"balances in the end", "accounts", "INV8", "1001 instead of 1000", func(b *book) { b.last("bank", "balance").Value = "495" }},
		{"balances of a turn", "accounts", "INV8", "in one turn", func(b *book) { b.op("bank.2.read1").Cells[0].Value = "7" }},
		{"left and right in the end", "accounts", "INV8", "in the end", func(b *book) { b.last("task", "left").Value = "task.2.commit" }},
		{"left and right of a turn", "accounts", "INV8", "in one turn", func(b *book) { b.op("task.2.read1").Cells[0].Value = "" }},
	} {
		p.run(t)
	}
}

// TestPlantedOutcomes: what is wrong with answers, and with the order of the applied.
func TestPlantedOutcomes(t *testing.T) {
	t.Parallel()
	for _, p := range []planted{
		{"an element", "outcomes", "INV6", "was acknowledged", func(b *book) { b.lose("set", "e.set.1.commit") }},
		{"a receipt", "outcomes", "INV6", "was acknowledged", func(b *book) { b.lose("coupon", "receipt.coupon.1.commit") }},
		{"everything", "outcomes", "INV6", "was acknowledged", func(b *book) { b.Final = nil }},
		{"an entry", "outcomes", "INV6", "was acknowledged", func(b *book) { b.lose("log", "entry.00000002") }},
		{"an audit row", "outcomes", "INV6", "not in the audit", func(b *book) { b.lose("table", "audit.00000002") }},
		{"audit and row", "outcomes", "INV8", "2 rows", func(b *book) { b.lose("table", "audit.00000002") }},
		{"refused is there", "outcomes", "INV6", "answered as refused", func(b *book) { b.op("set.2.commit").Outcome = "refused" }},
		{"failed is there", "outcomes", "INV6", "answered as failed", func(b *book) { b.op("log.2.commit").Outcome = "failed" }},
		{"refused was read", "outcomes", "INV6", "register.2.read0 saw", func(b *book) { b.op("register.1.commit").Outcome = "refused" }},
		{"refused is audited", "outcomes", "INV6", "the audit has", func(b *book) { b.op("table.2.commit").Outcome = "refused" }},
		{"forged is there", "outcomes", "INV6", "forged token", func(b *book) {
			b.op("set.2.commit").Forged = true
			b.op("set.2.commit").Outcome = "unknown"
		}},
		{"nobody wrote it", "outcomes", "INV6", "nobody wrote", func(b *book) {
			b.Final = append(b.Final, history.Cell{Resource: "set", Key: "e.x", Value: "x", Version: 1})
		}},
		{"nobody did it", "outcomes", "INV6", "nobody wrote", func(b *book) {
			b.Final = append(b.Final, history.Cell{Resource: "table", Key: "audit.00000009", Value: "3 x", Version: 1})
		}},
		{"an entry twice", "outcomes", "INV7", "two places", func(b *book) {
			b.Final = append(b.Final, history.Cell{Resource: "log", Key: "entry.00000004", Value: b.last("log", "entry.00000003").Value, Version: 1})
		}},
		{"an audit row twice", "outcomes", "INV7", "twice", func(b *book) {
			b.Final = append(b.Final, history.Cell{Resource: "table", Key: "audit.00000004", Value: b.last("table", "audit.00000003").Value, Version: 1})
		}},
		{"a length without an entry", "outcomes", "INV8", "its length is 4", func(b *book) { b.last("log", "length").Value = "4" }},
		{"a hole", "outcomes", "INV8", "from 1 to 5", func(b *book) { b.last("log", "entry.00000003").Key = "entry.00000005" }},
		{"a key twice", "outcomes", "INV7", "neither", func(b *book) { b.op("coupon.2.commit").Key = "coupon.1.commit" }},
		{"a ghost", "outcomes", "INV6", "applied before", func(b *book) {
			again := *b.op("coupon.2.commit")
			b.op("coupon.2.commit").Outcome = "unknown"
			again.ID, again.Outcome, again.Reason = "refused", "refused", "superseded"
			again.Call, again.Return = again.Call+1, again.Return+1
			b.Ops = append(b.Ops, again)
			again.ID, again.Outcome, again.Reason, again.Replayed = "replayed", "applied", "", true
			again.Call, again.Return = again.Call+1, again.Return+1
			b.Ops = append(b.Ops, again)
		}},

		{"number went back", "epochs", "INV3", "under number 1 after", func(b *book) {
			b.op("log.3.commit").Writes[1].Value = "1 log1 log.3.commit"
			b.last("log", "entry.00000003").Value = "1 log1 log.3.commit"
		}},
		{"a number of two grants", "epochs", "INV3", "of grants log2 and logx", func(b *book) {
			b.op("log.3.commit").Writes[1].Value = "2 logx log.3.commit"
			b.last("log", "entry.00000003").Value = "2 logx log.3.commit"
		}},
		{"a grant came back", "epochs", "INV3", "had ended", func(b *book) {
			b.op("log.3.commit").Writes[1].Value = "3 log1 log.3.commit"
			b.last("log", "entry.00000003").Value = "3 log1 log.3.commit"
		}},
		{"audit", "epochs", "INV3", "under number 1 after", func(b *book) {
			b.last("table", "audit.00000003").Value = "1 table.3.commit"
		}},
		{"register", "epochs", "INV3", "under number 1 after", func(b *book) {
			b.op("register.3.commit").Tokens = tokens("register", 1)
		}},
	} {
		p.run(t)
	}
}

// read adds a read without a turn.
func (b *book) read(w string, c history.Cell) {
	b.add(history.Op{ID: "read", Kind: history.Read, Workload: w, Group: w, Cells: []history.Cell{c}})
}

// TestPlantedGrants: what is wrong with the lock, and with the fence.
func TestPlantedGrants(t *testing.T) {
	t.Parallel()
	for _, p := range []planted{
		{"a number twice", "numbers", "INV9", "granted twice", func(b *book) { b.op("set.3.acquire").Tokens[0].Number = 2 }},
		{"a number twice, after the locks were lost", "numbers", "INV9", "granted twice", func(b *book) {
			b.Faults = append(b.Faults, history.Fault{Name: "forget", From: 1, To: 2, Recovered: 3, Loses: []history.Loss{history.LosesLocks}})
			b.op("set.3.acquire").Tokens[0].Number = 2
		}},
		{"a grant of two calls", "numbers", "INV9", "was answered to set.2.acquire and to set.3.acquire", func(b *book) { b.op("set.3.acquire").Tokens = tokens("set", 2) }},
		{"a number back", "numbers", "INV9", "number 1 after number 2", func(b *book) {
			b.op("set.2.acquire").Tokens[0].Number = 1
			b.op("set.1.acquire").Tokens[0].Number = 2
		}},
		{"a number of two writers", "numbers", "INV1", "of grants", func(b *book) {
			for _, name := range []string{"acquire", "commit", "release"} {
				b.op("set.3." + name).Tokens = []history.Token{{Resource: "set", Number: 2, Grant: "set3"}}
			}
			b.Faults = append(b.Faults, history.Fault{Name: "forget", From: 1, To: 2, Recovered: 3, Loses: []history.Loss{history.LosesLocks}})
		}},
		{"a stale write", "stale", "INV2", "number 3 had been granted", func(b *book) { b.op("set.3.commit").Tokens = tokens("set", 2) }},
		{"a stale read", "stale", "INV2", "number 3 had been granted", func(b *book) { b.op("register.3.read0").Tokens = tokens("register", 1) }},
		{"a stale write, before data was lost", "stale", "INV2", "number 3 had been granted", func(b *book) {
			b.Faults = []history.Fault{{Name: "restore", From: b.now + 1, To: b.now + 2, Recovered: b.now + 3, Loses: []history.Loss{history.LosesData}}}
			b.op("set.2.acquire").Call, b.op("set.2.acquire").Return = b.op("set.3.acquire").Call, b.op("set.3.acquire").Return+1
			b.op("set.3.commit").Tokens = tokens("set", 2)
		}},
		{"two holders who called at once", "trust", "INV9", "was trusted", func(b *book) {
			b.op("set.1.release").Tokens[0].Grant = "another"
			b.op("set.2.acquire").Call = b.op("set.1.acquire").Call
			b.op("set.1.acquire").Until = b.op("set.2.acquire").Return + 1
		}},
		{"two holders long after the locks were lost", "trust", "INV9", "was trusted", func(b *book) {
			b.op("set.1.release").Tokens[0].Grant = "another"
			b.Faults = append(b.Faults, history.Fault{Name: "forget", From: -2600 * ms, To: -2500 * ms, Recovered: 3, Loses: []history.Loss{history.LosesLocks}})
		}},
		{"two holders", "trust", "INV9", "was trusted", func(b *book) { b.op("set.1.release").Tokens[0].Grant = "another" }},
		{"two holders before a release", "trust", "INV9", "was trusted", func(b *book) {
			r := b.op("set.1.release")
			r.Call, r.Return, r.Until = b.now, b.now+ms, b.now
		}},
		{"a forged write", "forged", "INV10", "was served", func(b *book) { b.op("set.3.commit").Forged = true }},
		{"a renewal", "forged", "INV11", "had released", func(b *book) {
			b.add(history.Op{ID: "renew", Kind: history.Renew, Workload: "set", Group: "set", Tokens: tokens("set", 3)})
		}},
		{"a renewal of nothing", "forged", "INV10", "nobody was granted", func(b *book) {
			b.add(history.Op{ID: "renew", Kind: history.Renew, Workload: "set", Group: "set", Tokens: tokens("set", 9), Forged: true})
		}},
		{"a re-entry", "forged", "INV1", "got number 4", func(b *book) {
			b.add(history.Op{ID: "reenter", Kind: history.Reenter, Workload: "set", Group: "set", Tokens: []history.Token{tokens("set", 3)[0], tokens("set", 4)[0]}})
		}},
		{"a token of before", "incarnation", "INV2", "lost data", func(b *book) {
			b.Faults = append(b.Faults, history.Fault{
				Name: "restore", From: b.op("set.3.acquire").Return + 1, To: b.op("set.3.commit").Call - 1, Recovered: 1, Loses: []history.Loss{history.LosesData},
			})
		}},
		{"not served again", "recovery", "INV13", "16s after kill", func(b *book) {
			b.Faults = append(b.Faults, history.Fault{Name: "kill", From: b.Ended - 1, To: b.Ended})
			b.Ended += 16_000 * ms
		}},
		{"served again too late", "recovery", "INV13", "only 31s after kill", func(b *book) {
			b.Faults = append(b.Faults, history.Fault{Name: "kill", From: b.Ended - 1, To: b.Ended, Recovered: b.Ended + 31_000*ms, Cut: true})
		}},
		{"connections", "leaks", "INV13", "3 connections", func(b *book) {
			b.Leaks = append(b.Leaks, history.Leak{What: "connections", Where: "redis", Count: 3})
		}},
	} {
		p.run(t)
	}
}

// TestPicture: a violation of linearizability has a picture, as many as are asked for.
func TestPicture(t *testing.T) {
	t.Parallel()
	b := good()
	b.op("register.3.read0").Cells[0] = b.op("register.2.read0").Cells[0]
	b.op("table.2.commit").Cells[0].Value = "0 other"
	res := check.Check(&b.History, &check.Options{Pictures: 1})
	i := slices.IndexFunc(res.Violations, func(v check.Violation) bool { return v.Picture != "" })
	if i < 0 || !strings.Contains(res.Violations[i].Picture, "<html") || !strings.Contains(res.Violations[i].Picture, res.Violations[i].Ops[0]) {
		t.Errorf("no picture: %s", texts(res))
	}
	if n := slices.IndexFunc(res.Violations[i+1:], func(v check.Violation) bool { return v.Picture != "" }); n >= 0 {
		t.Error("more pictures than asked for")
	}
}
