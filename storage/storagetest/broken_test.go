package storagetest_test

import (
	"errors"
	"slices"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/storage"
	"github.com/fencegate/fencegate/storage/storagetest"
)

// defect is one way to break a store, and the scenarios that must notice.
type defect struct {
	name      string
	breakIt   func(b *breakable)
	surface   func(b *breakable, s storagetest.Surface) storagetest.Surface // what is broken in front
	classic   bool
	differs   bool // random sequences must notice too
	scenarios []string
}

func names(s ...string) []string { return s }

// forgiving judges as if the tokens that ignore picks were the mark.
func forgiving(ignore func(m fencing.Mark, t fencing.Token, c storage.Commit) bool) func(b *breakable) {
	return func(b *breakable) {
		b.judge = func(c storage.Commit, v storage.View) (storage.Result, storage.Changes, error) {
			for _, t := range c.Tokens {
				if m := v.Marks[t.Resource]; m.Current(t) != nil && ignore(m, t, c) {
					v.Marks[t.Resource] = fencing.Mark{Number: t.Number, Grant: t.Grant}
				}
			}
			return storage.Evaluate(c, v)
		}
	}
}

func forgive(reason fencing.Reason) func(b *breakable) {
	return forgiving(func(m fencing.Mark, t fencing.Token, _ storage.Commit) bool {
		stale, _ := errors.AsType[*fencing.StaleError](m.Current(t))
		return stale.Reason == reason
	})
}

// twisted changes what Evaluate found.
func twisted(twist func(c storage.Commit, v storage.View, res *storage.Result, ch *storage.Changes, err *error)) func(b *breakable) {
	return func(b *breakable) {
		b.judge = func(c storage.Commit, v storage.View) (storage.Result, storage.Changes, error) {
			res, ch, err := storage.Evaluate(c, v)
			twist(c, v, &res, &ch, &err)
			return res, ch, err
		}
	}
}

// twistedStale changes refusals by the fence.
func twistedStale(twist func(e *fencing.StaleError)) func(b *breakable) {
	return twisted(func(_ storage.Commit, _ storage.View, _ *storage.Result, _ *storage.Changes, err *error) {
		if stale, ok := errors.AsType[*fencing.StaleError](*err); ok {
			twist(stale)
		}
	})
}

func twistedRefusal(twist func(e *storage.RefusedError)) func(b *breakable) {
	return twisted(func(_ storage.Commit, _ storage.View, _ *storage.Result, _ *storage.Changes, err *error) {
		if refused, ok := errors.AsType[*storage.RefusedError](*err); ok {
			twist(refused)
		}
	})
}

// recounted gives counters another arithmetic: parse reads them, add adds.
func recounted(parse func(v []byte) (int64, bool), add func(a, b int64) int64) func(b *breakable) {
	return func(b *breakable) {
		b.judge = func(c storage.Commit, v storage.View) (storage.Result, storage.Changes, error) {
			for id, rec := range v.Records {
				if n, ok := parse(rec.Value); ok {
					rec.Value = storage.Counter(n)
					v.Records[id] = rec
				}
			}
			res, ch, err := storage.Evaluate(c, v)
			for i, op := range c.Ops {
				if op.Kind == storage.KindAdd && err == nil {
					have, _ := storage.ParseCounter(v.Records[op.ID()].Value)
					res.Ops[i].Counter = add(have, op.Delta)
				}
			}
			return res, ch, err
		}
	}
}

func list(compare func(a, b string) int, match func(rec storage.Record, resource, prefix, after string) bool) func(b *breakable) {
	return func(b *breakable) {
		b.list = func(all []storage.Record, resource, prefix, after string, limit int) []storage.Record {
			return listBy(all, limit, compare, func(rec storage.Record) bool { return match(rec, resource, prefix, after) })
		}
	}
}

func oneUse(b *breakable) {
	used := map[fencing.Token]bool{}
	b.judge = func(c storage.Commit, v storage.View) (storage.Result, storage.Changes, error) {
		for _, t := range c.Tokens {
			if used[t] {
				return storage.Result{}, storage.Changes{}, &fencing.StaleError{Token: t, Highest: t.Number, Reason: fencing.Superseded}
			}
			used[t] = true
		}
		return storage.Evaluate(c, v)
	}
}

func broken() []defect {
	return slices.Concat(brokenFences(), brokenData(), brokenKeys(), brokenFronts())
}
