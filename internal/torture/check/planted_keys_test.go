package check_test

import (
	"slices"
	"testing"

	"github.com/fencegate/fencegate/internal/torture/check"
	"github.com/fencegate/fencegate/internal/torture/history"
)

// again sends a commit once more, in the end, and answers it as change says.
func (b *book) again(id, as string, change func(op *history.Op)) {
	op := *b.op(id)
	op.ID, op.Outcome, op.Reason = as, "applied", ""
	op.Writes, op.Tokens = slices.Clone(op.Writes), slices.Clone(op.Tokens)
	change(&op)
	b.add(op)
}

func fenced(op *history.Op)   { op.Outcome, op.Reason = "refused", "superseded" }
func replayed(op *history.Op) { op.Replayed = true }
func later(op *history.Op)    { op.Tokens = tokens("coupon", 9) }

// TestPlantedKeys: what does not fit together of what attempts under one key were told.
func TestPlantedKeys(t *testing.T) {
	t.Parallel()
	never := func(reason string) planted {
		return planted{reason, "outcomes", "INV7", "which nothing that was sent is", func(b *book) {
			b.again("coupon.3.commit", "again", func(op *history.Op) { op.Key, op.Outcome, op.Reason = "x", "refused", reason })
		}}
	}
	for _, p := range []planted{
		{"applied, then refused by the fence", "outcomes", "INV6", "was refused under it (superseded)", func(b *book) { b.again("coupon.2.commit", "again", fenced) }},
		{"applied, then refused by the data", "outcomes", "INV6", "was refused under it (below-minimum)", func(b *book) {
			b.again("coupon.2.commit", "again", func(op *history.Op) { op.Outcome, op.Reason = "refused", "below-minimum" })
		}},
		{"refused by the data, then applied", "outcomes", "INV7", "refused by the data under the key", func(b *book) {
			c := b.op("coupon.2.commit")
			c.Outcome, c.Reason = "refused", "below-minimum"
			b.again("coupon.2.commit", "again", func(*history.Op) {})
		}},
		never("key-reused"), never("invalid"), never("not-counter"),
		{"another sum of before", "outcomes", "INV7", "other results", func(b *book) {
			b.again("coupon.2.commit", "again", func(op *history.Op) { op.Replayed, op.Writes[0].Counter = true, 7 })
		}},
		{"another version of before", "outcomes", "INV7", "other results", func(b *book) {
			b.again("coupon.2.commit", "again", func(op *history.Op) { op.Replayed, op.Writes[1].Version = true, 2 })
		}},
		{"refused, and there", "outcomes", "INV6", "what it writes is there", func(b *book) {
			b.op("coupon.2.commit").Outcome = "unknown"
			b.again("coupon.2.commit", "again", fenced)
		}},
		{"refused, and there, after another with the token", "outcomes", "INV6", "what it writes is there", func(b *book) {
			b.op("coupon.2.commit").Outcome = "unknown"
			b.again("coupon.2.commit", "again", fenced)
			b.again("coupon.2.commit", "late", func(op *history.Op) { op.Outcome = "unknown" })
		}},
		{"refused, then applied under the token", "outcomes", "INV6", "was refused under the key", func(b *book) {
			fenced(b.op("coupon.2.commit"))
			b.again("coupon.2.commit", "again", func(*history.Op) {})
		}},
		{"a ghost with a later token", "outcomes", "INV6", "applied before", func(b *book) {
			b.op("coupon.3.commit").Outcome = "unknown"
			b.again("coupon.3.commit", "refused", fenced)
			b.again("coupon.3.commit", "replayed", func(op *history.Op) { replayed(op); later(op) })
		}},
		{"a ghost with a later token, seen before", "outcomes", "INV6", "applied before", func(b *book) {
			b.Direct = false
			b.op("coupon.2.commit").Outcome = "unknown" // the third found its sum
			b.again("coupon.2.commit", "refused", fenced)
			b.again("coupon.2.commit", "replayed", func(op *history.Op) { replayed(op); later(op) })
		}},
		{"a key twice, the first after itself", "outcomes", "INV7", "neither", func(b *book) {
			replayed(b.op("coupon.1.commit"))
			b.op("coupon.2.commit").Key = "coupon.1.commit"
		}},
		{"an element again", "outcomes", "INV7", "version 2 of", func(b *book) { b.last("set", "e.set.1.commit").Version = 2 }},
		{"a receipt's answer", "outcomes", "INV7", "version 2 of", func(b *book) { b.op("coupon.3.commit").Writes[1].Version = 2 }},
		{"an entry that was read", "outcomes", "INV7", "version 3 of", func(b *book) {
			c := *b.last("log", "entry.00000001")
			c.Version = 3
			b.read("log", c)
		}},
		{"forged, and replayed", "forged", "INV10", "was served", func(b *book) {
			c := b.op("set.3.commit")
			c.Forged, c.Replayed, c.Key = true, true, "f"
		}},
		{"a token of before, replayed alone", "incarnation", "INV2", "lost data", func(b *book) {
			b.op("set.3.commit").Replayed, b.op("set.3.commit").Key = true, "k"
			b.Faults = append(b.Faults, history.Fault{
				Name: "restore", From: b.op("set.3.acquire").Return + 1, To: b.op("set.3.commit").Call - 1, Recovered: 1, Loses: []history.Loss{history.LosesData},
			})
		}},
	} {
		p.run(t)
	}
}

// TestRightKeys: what can be told under a key is not objected to.
func TestRightKeys(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(b *book){
		"answered as before": func(b *book) { b.again("coupon.2.commit", "again", replayed) },
		"twice in one attempt, through a gateway": func(b *book) {
			b.Direct = false
			replayed(b.op("coupon.2.commit"))
		},
		"refused, then a later token": func(b *book) {
			b.op("coupon.3.commit").Outcome = "unknown"
			b.again("coupon.3.commit", "refused", fenced)
			b.again("coupon.3.commit", "late", func(op *history.Op) { op.Outcome = "unknown"; later(op) })
		},
		"refused, then a later token twice in one attempt": func(b *book) {
			b.Direct = false
			b.op("coupon.3.commit").Outcome = "unknown"
			b.again("coupon.3.commit", "refused", fenced)
			b.again("coupon.3.commit", "replayed", func(op *history.Op) { replayed(op); later(op) })
		},
		"an older token is refused, a later one is under way": func(b *book) {
			c := b.op("coupon.3.commit")
			c.Outcome = "unknown"
			b.again("coupon.3.commit", "refused", func(op *history.Op) { fenced(op); op.Tokens = tokens("coupon", 2) })
		},
		"refused, and not there": func(b *book) {
			b.op("coupon.3.commit").Outcome = "unknown"
			b.again("coupon.3.commit", "refused", fenced)
			b.lose("coupon", "receipt.coupon.3.commit")
			*b.last("coupon", "stock") = history.Cell{Resource: "coupon", Key: "stock", Value: "998", Version: 3}
		},
		"never granted, then applied": func(b *book) {
			b.op("coupon.3.commit").Outcome, b.op("coupon.3.commit").Reason = "refused", "ungranted"
			b.again("coupon.3.commit", "again", func(*history.Op) {})
		},
		"the record was lost with the data": func(b *book) {
			b.Faults = []history.Fault{{Name: "restore", From: b.now + ms, To: b.now + 2*ms, Recovered: b.now + 3*ms, Loses: []history.Loss{history.LosesData}}}
			b.now += 3 * ms
			b.again("coupon.2.commit", "again", fenced)
			b.lose("coupon", "receipt.coupon.2.commit")
			b.lose("coupon", "receipt.coupon.3.commit")
			*b.last("coupon", "stock") = history.Cell{Resource: "coupon", Key: "stock", Value: "999", Version: 2}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := good()
			change(b)
			b.Ended = b.now + 100*ms
			if res := check.Check(&b.History, nil); len(res.Violations) > 0 {
				t.Errorf("want nothing: %s", texts(res))
			}
		})
	}
}
