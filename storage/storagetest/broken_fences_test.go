package storagetest_test

import (
	"strconv"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/storage"
)

// brokenFences break what a store promises of tokens and marks.
func brokenFences() []defect {
	return []defect{
		{name: "check, then write", breakIt: func(b *breakable) { b.gap = true }, scenarios: names("epochs never interleave")},
		{name: "check, then read", breakIt: func(b *breakable) { b.readGap = true }, scenarios: names("epochs never interleave")},
		{
			name: "older tokens are accepted", breakIt: forgive(fencing.Superseded), differs: true,
			scenarios: names("read-modify-write is not lost", "a third client", "two writes are torn without one commit",
				"two writes are whole with one commit", "a refusal by the fence changes nothing", "expired but unclaimed",
				"commits of several resources", "a token without operations", "epochs never interleave",
				"concurrent commits stand on their own", "the highest number", "a batch is judged commit by commit"),
		},
		{
			name: "older tokens are accepted by a classic store", classic: true,
			breakIt: func(b *breakable) {
				forgive(fencing.Superseded)(b)
				b.raise = func(m fencing.Mark, t fencing.Token) (fencing.Mark, error) {
					if t.Number < m.Number {
						return m, nil
					}
					return m.Raise(t)
				}
			},
			scenarios: names("read-modify-write is not lost", "a third client", "classic raises by use",
				"classic keeps the raise of a refused commit"),
		},
		{
			name: "retired tokens are accepted", breakIt: forgive(fencing.Retired), differs: true,
			scenarios: names("a third client", "retire", "evict", "a refusal by the fence changes nothing", "a token without operations"),
		},
		{
			name: "grants are not compared", breakIt: forgive(fencing.Duplicate), differs: true,
			scenarios: names("a refusal by the fence changes nothing"),
		},
		{
			name: "newer tokens are accepted", breakIt: forgive(fencing.Ungranted), differs: true,
			scenarios: names("a refusal by the fence changes nothing", "strict never raises by use"),
		},
		{
			name: "a token works once", breakIt: oneUse, differs: true,
			scenarios: names("re-entry", "expired but unclaimed", "versions grow by one"),
		},
		{
			name: "a token works once in a classic store", breakIt: oneUse, classic: true,
			scenarios: names("without a raise the gap is there", "re-entry"),
		},
		{
			name: "only the first token counts", differs: true,
			breakIt:   forgiving(func(_ fencing.Mark, t fencing.Token, c storage.Commit) bool { return t != c.Tokens[0] }),
			scenarios: names("commits of several resources", "a token without operations"),
		},
		{
			name: "only tokens with operations count", differs: true,
			breakIt: forgiving(func(_ fencing.Mark, t fencing.Token, c storage.Commit) bool {
				for _, op := range c.Ops {
					if op.Resource == t.Resource {
						return false
					}
				}
				return true
			}),
			scenarios: names("a token without operations"),
		},
		{
			name: "requires need no token", differs: true,
			breakIt: forgiving(func(_ fencing.Mark, _ fencing.Token, c storage.Commit) bool {
				for _, op := range c.Ops {
					if op.Changes() {
						return false
					}
				}
				return true
			}),
			scenarios: names("a refusal by the fence changes nothing"),
		},
		{
			name: "fenced reads are not fenced", differs: true,
			breakIt:   func(b *breakable) { b.current = func(fencing.Mark, fencing.Token) error { return nil } },
			scenarios: names("fenced reads", "a third client", "retire", "strict never raises by use"),
		},
		{
			name: "the highest number is not told", breakIt: twistedStale(func(e *fencing.StaleError) { e.Highest = 0 }), differs: true,
			scenarios: names("a refusal by the fence changes nothing", "read-modify-write is not lost"),
		},
		{
			name: "the token is not told", breakIt: twistedStale(func(e *fencing.StaleError) { e.Token.Grant = "" }), differs: true,
			scenarios: names("a refusal by the fence changes nothing"),
		},
		{
			name: "one reason for all", breakIt: twistedStale(func(e *fencing.StaleError) { e.Reason = fencing.Superseded }), differs: true,
			scenarios: names("retire", "evict", "a refusal by the fence changes nothing"),
		},
		{
			name: "the data is judged first", differs: true, scenarios: names("the fence comes before the data"),
			breakIt: func(b *breakable) {
				b.judge = func(c storage.Commit, v storage.View) (storage.Result, storage.Changes, error) {
					free := c
					free.Tokens = nil
					if _, _, err := storage.Evaluate(free, v); err != nil {
						return storage.Result{}, storage.Changes{}, err
					}
					return storage.Evaluate(c, v)
				}
			},
		},
		{
			name: "raise takes the number only", differs: true, scenarios: names("raise again"),
			breakIt: func(b *breakable) {
				b.raise = func(m fencing.Mark, t fencing.Token) (fencing.Mark, error) {
					if t.Number == m.Number {
						return fencing.Mark{Number: t.Number, Grant: t.Grant}, nil
					}
					return m.Raise(t)
				}
			},
		},
		{
			name: "raise refuses the mark itself", differs: true, scenarios: names("raise again"),
			breakIt: func(b *breakable) {
				b.raise = func(m fencing.Mark, t fencing.Token) (fencing.Mark, error) {
					if t.Number == m.Number {
						return m, &fencing.StaleError{Token: t, Highest: m.Number, Reason: fencing.Retired}
					}
					return m.Raise(t)
				}
			},
		},
		{
			name: "raise lowers the mark", differs: true, scenarios: names("raise again", "a third client"),
			breakIt: func(b *breakable) {
				b.raise = func(m fencing.Mark, t fencing.Token) (fencing.Mark, error) {
					return fencing.Mark{Number: t.Number, Grant: t.Grant}, nil
				}
			},
		},
		{
			name: "numbers compare as text", scenarios: names("the highest number"),
			breakIt: func(b *breakable) {
				b.raise = func(m fencing.Mark, t fencing.Token) (fencing.Mark, error) {
					if !m.Retired && strconv.FormatInt(t.Number, 10) < strconv.FormatInt(m.Number, 10) {
						return m, &fencing.StaleError{Token: t, Highest: m.Number, Reason: fencing.Superseded}
					}
					return m.Raise(t)
				}
			},
		},
		{
			name: "numbers lose digits", differs: true, scenarios: names("the highest number"),
			breakIt: func(b *breakable) {
				b.raise = func(m fencing.Mark, t fencing.Token) (fencing.Mark, error) {
					text := strconv.FormatFloat(float64(t.Number), 'g', 14, 64) // as Lua's tostring
					n, _ := strconv.ParseFloat(text, 64)
					t.Number = int64(n)
					return m.Raise(t)
				}
			},
		},
		{
			name: "retire does nothing", differs: true, scenarios: names("retire", "a third client"),
			breakIt: func(b *breakable) { b.retire = func(m fencing.Mark, _ fencing.Token) fencing.Mark { return m } },
		},
		{
			name: "retire ends any grant", differs: true, scenarios: names("retire"),
			breakIt: func(b *breakable) {
				b.retire = func(m fencing.Mark, t fencing.Token) fencing.Mark {
					m.Retired = m.Retired || t.Number == m.Number
					return m
				}
			},
		},
		{
			name: "retire forgets the number", differs: true, scenarios: names("retire", "marks are per resource"),
			breakIt: func(b *breakable) {
				b.retire = func(m fencing.Mark, t fencing.Token) fencing.Mark {
					if m.Current(t) == nil {
						return fencing.Mark{Number: m.Number - 1, Retired: true}
					}
					return m
				}
			},
		},
		{
			name: "evict is retire", differs: true, scenarios: names("evict"),
			breakIt: func(b *breakable) { b.evict = fencing.Mark.Retire },
		},
		{
			name: "evict ends any mark", differs: true, scenarios: names("evict"),
			breakIt: func(b *breakable) {
				b.evict = func(m fencing.Mark, t fencing.Token) fencing.Mark {
					return fencing.Mark{Number: max(m.Number, t.Number), Retired: true}
				}
			},
		},
		{
			name: "evict by number is ignored", differs: true, scenarios: names("evict"),
			breakIt: func(b *breakable) {
				b.evict = func(m fencing.Mark, t fencing.Token) fencing.Mark {
					if t.Grant == "" {
						return m
					}
					return m.Evict(t)
				}
			},
		},
		{
			name: "raises do not wait", breakIt: func(b *breakable) { b.impatient = true },
			scenarios: names("a raise waits for the transaction in flight"),
		},
		{name: "updates are not undone", breakIt: func(b *breakable) { b.ownUpdates = true }, scenarios: names("update writes or does not")},
		{name: "updates are checked at the end", breakIt: func(b *breakable) { b.lateCheck = true }, scenarios: names("update is refused")},
		{name: "panics are not undone", breakIt: func(b *breakable) { b.noUndo = true }, scenarios: names("a panic in update")},
		{
			name: "a batch is all or nothing", scenarios: names("a batch is judged commit by commit"),
			breakIt: func(b *breakable) {
				b.batch = func(b *breakable, batch []storage.Commit) []storage.Outcome {
					out := make([]storage.Outcome, len(batch))
					for i, c := range batch {
						if out[i].Result, out[i].Err = b.apply(c); out[i].Err != nil && len(batch) > 1 {
							for j := range out {
								out[j].Err = out[i].Err
							}
							break
						}
					}
					return out
				}
			},
		},
	}
}
