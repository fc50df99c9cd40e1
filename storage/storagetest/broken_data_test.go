package storagetest_test

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/storage"
)

// brokenData break what a store promises of records.
func brokenData() []defect {
	type (
		result  = *storage.Result
		changes = *storage.Changes
	)
	text := func(change func(v []byte) []byte) func(b *breakable) { return func(b *breakable) { b.value = change } }
	byPrefix := func(rec storage.Record, resource, prefix, after string) bool {
		return rec.Resource == resource && strings.HasPrefix(rec.Key, prefix) && rec.Key > after
	}
	return []defect{
		{
			name: "look, then write", breakIt: func(b *breakable) { b.dataGap = true },
			scenarios: names("concurrent adds are all counted", "concurrent commits of several resources", "epochs never interleave"),
		},
		{
			name: "commits are torn", breakIt: func(b *breakable) { b.tornWrites = true }, differs: true,
			scenarios: names("a refusal by the data changes nothing", "concurrent commits stand on their own", "a batch is judged commit by commit"),
		},
		{
			name: "a refused delete raises the base", differs: true, scenarios: names("a refused delete leaves no trace"),
			breakIt: func(b *breakable) {
				b.judge = func(c storage.Commit, v storage.View) (storage.Result, storage.Changes, error) {
					res, ch, err := storage.Evaluate(c, v)
					for _, op := range c.Ops {
						if op.Kind == storage.KindDelete && err != nil {
							b.bases[op.Resource] = max(b.bases[op.Resource], v.Records[op.ID()].Version)
						}
					}
					return res, ch, err
				}
			},
		},
		{
			name: "the operation is not told", breakIt: twistedRefusal(func(e *storage.RefusedError) { e.Op = 0 }), differs: true,
			scenarios: names("a refusal by the data changes nothing"),
		},
		{
			name: "what was there is not told", breakIt: twistedRefusal(func(e *storage.RefusedError) { e.Have = 0 }), differs: true,
			scenarios: names("a refusal by the data changes nothing", "require", "add", "add at the edges"),
		},
		{
			name: "versions grow by two", differs: true, scenarios: names("versions grow by one", "without a raise the gap is there"),
			breakIt: twisted(func(_ storage.Commit, v storage.View, res result, ch changes, _ *error) {
				for i, rec := range ch.Put {
					ch.Put[i].Version = v.Records[storage.RecordID{Resource: rec.Resource, Key: rec.Key}].Version + 2
				}
				for i := range res.Ops {
					res.Ops[i].Version++
				}
			}),
		},
		{
			name: "deleted versions are forgotten", differs: true, scenarios: names("versions are never used again", "require"),
			breakIt: twisted(func(_ storage.Commit, _ storage.View, _ result, ch changes, _ *error) { ch.Bases = nil }),
		},
		{
			name: "the last delete sets the base", differs: true, scenarios: names("versions are never used again"),
			breakIt: twisted(func(_ storage.Commit, v storage.View, _ result, ch changes, _ *error) {
				for _, id := range ch.Deleted {
					ch.Bases = map[string]int64{id.Resource: v.Records[id].Version}
				}
			}),
		},
		{
			name: "requires are ignored", differs: true, scenarios: names("require", "require beside a change"),
			breakIt: func(b *breakable) {
				b.judge = func(c storage.Commit, v storage.View) (storage.Result, storage.Changes, error) {
					c.Ops = append([]storage.Op{}, c.Ops...)
					for i, op := range c.Ops {
						if op.Kind == storage.KindRequire {
							c.Ops[i].Version = v.Records[op.ID()].Version
						}
					}
					return storage.Evaluate(c, v)
				}
			},
		},
		{
			name: "a require reports what it required", differs: true, scenarios: names("require beside a change"),
			breakIt: twisted(func(c storage.Commit, _ storage.View, res result, _ changes, err *error) {
				for i, op := range c.Ops {
					if op.Kind == storage.KindRequire && *err == nil {
						res.Ops[i].Version = op.Version
					}
				}
			}),
		},
		{
			name: "deletes leave empty records", differs: true, scenarios: names("delete", "list"),
			breakIt: twisted(func(_ storage.Commit, v storage.View, _ result, ch changes, _ *error) {
				for _, id := range ch.Deleted {
					ch.Put = append(ch.Put, storage.Record{Resource: id.Resource, Key: id.Key, Version: v.Records[id].Version + 1})
				}
				ch.Deleted = nil
			}),
		},
		{
			name: "minimums are ignored", differs: true, scenarios: names("add", "add at the edges", "concurrent adds are all counted"),
			breakIt: func(b *breakable) {
				b.judge = func(c storage.Commit, v storage.View) (storage.Result, storage.Changes, error) {
					c.Ops = append([]storage.Op{}, c.Ops...)
					for i := range c.Ops {
						c.Ops[i].Min = storage.NoMinimum
					}
					return storage.Evaluate(c, v)
				}
			},
		},
		{
			name: "sums are floats", differs: true, scenarios: names("add at the edges"),
			breakIt: recounted(storage.ParseCounter, func(a, b int64) int64 { return int64(float32(a) + float32(b)) }),
		},
		{
			name: "texts are in exponents", scenarios: names("add at the edges"),
			breakIt: text(func(v []byte) []byte {
				if n, ok := storage.ParseCounter(v); ok {
					return strconv.AppendFloat(nil, float64(n), 'g', 14, 64)
				}
				return bytes.Clone(v)
			}),
		},
		{
			name: "numbers have several texts", differs: true, scenarios: names("not a counter"),
			breakIt: recounted(func(v []byte) (int64, bool) {
				n, err := strconv.ParseInt(string(v), 10, 64)
				return n, err == nil && storage.MaxCounter >= n && n >= -storage.MaxCounter
			}, func(a, b int64) int64 { return a + b }),
		},
		{
			name: "empty is zero", differs: true, scenarios: names("not a counter"),
			breakIt: recounted(func(v []byte) (int64, bool) { return 0, len(v) == 0 }, func(a, b int64) int64 { return a + b }),
		},
		{
			name: "values end at a NUL", scenarios: names("values"),
			breakIt: text(func(v []byte) []byte { v, _, _ = bytes.Cut(v, []byte{0}); return bytes.Clone(v) }), differs: true,
		},
		{name: "values are trimmed", scenarios: names("values"), breakIt: text(func(v []byte) []byte { return bytes.TrimSpace(bytes.Clone(v)) })},
		{
			name: "values are UTF-8", scenarios: names("values"), differs: true,
			breakIt: text(func(v []byte) []byte { return bytes.ToValidUTF8(v, []byte("?")) }),
		},
		{name: "values are cut", scenarios: names("the largest value"), breakIt: text(func(v []byte) []byte { return bytes.Clone(v[:min(len(v), 65535)]) })},
		{name: "values are kept as they came", scenarios: names("values are not shared"), breakIt: text(func(v []byte) []byte { return v })},
		{
			name: "values are given away", scenarios: names("values are not shared"),
			breakIt: func(b *breakable) { b.shown = func(v []byte) []byte { return v } },
		},
		{
			name: "lists show every resource", scenarios: names("list"), differs: true,
			breakIt: list(strings.Compare, func(rec storage.Record, _, prefix, after string) bool {
				return strings.HasPrefix(rec.Key, prefix) && rec.Key > after
			}),
		},
		{
			name: "lists show resources with one beginning", scenarios: names("list"),
			breakIt: list(strings.Compare, func(rec storage.Record, resource, prefix, after string) bool {
				return strings.HasPrefix(rec.Resource, resource) && strings.HasPrefix(rec.Key, prefix) && rec.Key > after
			}),
		},
		{
			name: "lists begin at after", scenarios: names("list", "list by pages"), differs: true,
			breakIt: list(strings.Compare, func(rec storage.Record, resource, prefix, after string) bool {
				return rec.Resource == resource && strings.HasPrefix(rec.Key, prefix) && rec.Key >= after
			}),
		},
		{
			name: "prefixes are patterns", scenarios: names("list"), differs: true,
			breakIt: list(strings.Compare, func(rec storage.Record, resource, prefix, after string) bool {
				like := len(rec.Key) >= len(prefix)
				for i := range min(len(prefix), len(rec.Key)) {
					like = like && (prefix[i] == '_' || prefix[i] == rec.Key[i])
				}
				return rec.Resource == resource && like && rec.Key > after
			}),
		},
		{
			name: "lists ignore case in their order", scenarios: names("list"), differs: true,
			breakIt: list(func(a, b string) int { return strings.Compare(strings.ToLower(a), strings.ToLower(b)) }, byPrefix),
		},
		{
			name: "lists are unsorted", scenarios: names("list", "list by pages"), differs: true,
			breakIt: list(func(a, b string) int { return strings.Compare(b, a) }, byPrefix),
		},
		{
			name: "lists are one too long", scenarios: names("list"), differs: true,
			breakIt: func(b *breakable) {
				b.list = func(all []storage.Record, resource, prefix, after string, limit int) []storage.Record {
					return listRight(all, resource, prefix, after, limit+1)
				}
			},
		},
		{name: "names ignore case", scenarios: names("names are exact"), breakIt: func(b *breakable) { b.name = strings.ToLower }},
		{name: "names are cut", scenarios: names("names are exact"), breakIt: func(b *breakable) {
			b.name = func(s string) string { return s[:min(len(s), fencing.MaxNameLen-1)] }
		}},
		{name: "resources are mistaken", scenarios: names("marks are per resource"), breakIt: func(b *breakable) {
			b.name = func(s string) string { return strings.TrimSuffix(s, "-b") }
		}},
		{
			name: "large commits are cut", scenarios: names("the largest commit"),
			breakIt: twisted(func(_ storage.Commit, _ storage.View, _ result, ch changes, _ *error) {
				ch.Put = ch.Put[:min(len(ch.Put), 255)]
			}),
		},
		{
			name: "applied and called failed", breakIt: func(b *breakable) { b.ignoreCtx = fencing.AsFailed },
			scenarios: names("a context that has ended", "a context that ends on the way"),
		},
	}
}
