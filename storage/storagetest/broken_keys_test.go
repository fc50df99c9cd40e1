package storagetest_test

import (
	"crypto/sha256"
	"errors"
	"slices"
	"strings"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/storage"
)

// lookFirst does something before the record of the key is judged.
func lookFirst(look func(c storage.Commit, v *storage.View) error) func(b *breakable) {
	return func(b *breakable) {
		b.judge = func(c storage.Commit, v storage.View) (storage.Result, storage.Changes, error) {
			if c.Key != "" {
				if err := look(c, &v); err != nil {
					return storage.Result{}, storage.Changes{}, err
				}
			}
			return storage.Evaluate(c, v)
		}
	}
}

// fingerprint takes for a commit's payload what the function leaves of it.
func fingerprint(leave func(c *storage.Commit)) func(b *breakable) {
	return func(b *breakable) {
		b.payload = func(c storage.Commit) storage.Fingerprint {
			c = storage.Commit{Tokens: c.Tokens, Ops: slices.Clone(c.Ops), Key: c.Key} // not the one whose fingerprint was made
			leave(&c)
			return c.Fingerprint()
		}
	}
}

func withoutValues(c *storage.Commit) {
	for i := range c.Ops {
		c.Ops[i].Value = nil
	}
}

func keyed(change func(c storage.Commit, id storage.RecordID) storage.RecordID) func(b *breakable) {
	return func(b *breakable) { b.keyID = change }
}

func keysNamed(change func(key string) string) func(b *breakable) {
	return keyed(func(_ storage.Commit, id storage.RecordID) storage.RecordID {
		return storage.RecordID{Resource: id.Resource, Key: change(id.Key)}
	})
}

// brokenKeys break what a store promises of idempotency keys.
func brokenKeys() []defect {
	return []defect{
		{
			name: "keys are ignored", differs: true,
			breakIt: lookFirst(func(_ storage.Commit, v *storage.View) error { v.Answer = nil; return nil }),
			scenarios: names("a key is applied once", "one key several times in a batch", "concurrent sends of one key", "random tokens are accepted in order",
				"a key is looked up"),
		},
		{
			name: "the fence is judged before the key", differs: true,
			breakIt: lookFirst(func(c storage.Commit, v *storage.View) error {
				for _, t := range c.Tokens {
					if err := v.Marks[t.Resource].Current(t); err != nil {
						return err
					}
				}
				return nil
			}),
			scenarios: names("a key under another token", "a key that the fence refused", "a key is for one commit", "concurrent sends of one key",
				"random tokens are accepted in order", "an update with a key", "a key is looked up"),
		},
		{
			name:      "who looks a key up may write",
			breakIt:   forgiving(func(_ fencing.Mark, t fencing.Token, c storage.Commit) bool { return c.Key != "" && t.Number == 1 }),
			scenarios: names("a key is looked up"),
		},
		{
			name: "a classic store's front judges the fence before the key", classic: true,
			breakIt: lookFirst(func(c storage.Commit, v *storage.View) error {
				for _, t := range c.Tokens {
					if err := v.Marks[t.Resource].Current(t); err != nil {
						return err
					}
				}
				return nil
			}),
			scenarios: names("a key under another token", "a key that the fence refused"),
		},
		{
			name: "the key is looked for before the locks", breakIt: func(b *breakable) { b.keyGap = true },
			scenarios: names("concurrent sends of one key"),
		},
		{
			name: "tokens are payload", differs: true,
			breakIt: func(b *breakable) {
				b.payload = func(c storage.Commit) storage.Fingerprint {
					f := c.Fingerprint()
					for _, t := range c.Tokens {
						f = sha256.Sum256(append(f[:], t.Text()...))
					}
					return f
				}
			},
			scenarios: names("a key under another token", "a key belongs to the lowest resource", "concurrent sends of one key"),
		},
		{
			name: "payload is ignored", differs: true,
			breakIt: func(b *breakable) {
				b.payload = func(storage.Commit) storage.Fingerprint { return storage.Fingerprint{} }
			},
			scenarios: names("a key is for one commit", "a key that the data refused"),
		},
		{name: "values are no payload", breakIt: fingerprint(withoutValues), differs: true, scenarios: names("a key is for one commit")},
		{
			name: "the order of operations is no payload", scenarios: names("a key is for one commit"),
			breakIt: fingerprint(func(c *storage.Commit) {
				slices.SortFunc(c.Ops, func(a, b storage.Op) int { return strings.Compare(string(a.Kind), string(b.Kind)) })
			}),
		},
		{
			name: "resources without operations are no payload", scenarios: names("a key is for one commit", "an update with a key"),
			breakIt: fingerprint(func(c *storage.Commit) { c.Tokens = nil }),
		},
		{
			name: "another payload is applied", differs: true, scenarios: names("a key is for one commit", "one key several times in a batch"),
			breakIt: lookFirst(func(c storage.Commit, v *storage.View) error {
				if v.Answer != nil && v.Answer.Fingerprint != c.Fingerprint() {
					v.Answer = nil
				}
				return nil
			}),
		},
		{
			name: "refusals by the data are not kept", differs: true, scenarios: names("a key that the data refused"),
			breakIt: twisted(func(_ storage.Commit, _ storage.View, _ *storage.Result, ch *storage.Changes, err *error) {
				if *err != nil {
					ch.Answer = nil
				}
			}),
		},
		{
			name: "refusals by the fence are kept", differs: true, scenarios: names("a key that the fence refused"),
			breakIt: twisted(func(c storage.Commit, _ storage.View, _ *storage.Result, ch *storage.Changes, err *error) {
				if c.Key != "" && errors.Is(*err, fencing.ErrStale) {
					ch.Answer = &storage.Answer{Refused: &storage.RefusedError{Reason: *err}}
				}
			}),
		},
		{
			name: "a replay is not told", differs: true,
			breakIt: twisted(func(_ storage.Commit, _ storage.View, res *storage.Result, _ *storage.Changes, _ *error) {
				res.Replayed = false
			}),
			scenarios: names("a key is applied once", "names of keys", "a key remembers exactly"),
		},
		{
			name: "a replay tells versions of now", differs: true, scenarios: names("a key is applied once"),
			breakIt: twisted(func(c storage.Commit, v storage.View, res *storage.Result, _ *storage.Changes, err *error) {
				for i, op := range c.Ops {
					if res.Replayed && *err == nil {
						res.Ops[i].Version = v.Records[op.ID()].Version
					}
				}
			}),
		},
		{
			name: "answers are floats", scenarios: names("a key remembers exactly"),
			breakIt: func(b *breakable) {
				b.remembered = func(a storage.Answer) storage.Answer {
					a.Result.Ops = slices.Clone(a.Result.Ops)
					for i, op := range a.Result.Ops {
						a.Result.Ops[i].Counter = int64(float32(op.Counter))
					}
					return a
				}
			},
		},
		{
			name: "keys are one for all resources", breakIt: keyed(func(_ storage.Commit, id storage.RecordID) storage.RecordID {
				return storage.RecordID{Key: id.Key}
			}),
			differs: true, scenarios: names("a key belongs to the lowest resource"),
		},
		{
			name: "keys are those of the first operation's resource", breakIt: keyed(func(c storage.Commit, id storage.RecordID) storage.RecordID {
				if len(c.Ops) == 0 {
					return id
				}
				return storage.RecordID{Resource: c.Ops[0].Resource, Key: id.Key}
			}),
			scenarios: names("a key belongs to the lowest resource"),
		},
		{
			name: "resource and key are run together", breakIt: keyed(func(_ storage.Commit, id storage.RecordID) storage.RecordID {
				return storage.RecordID{Key: id.Resource + ":" + id.Key}
			}),
			scenarios: names("a key belongs to the lowest resource"),
		},
		{name: "keys ignore case", breakIt: keysNamed(strings.ToLower), differs: true, scenarios: names("names of keys")},
		{
			name: "keys are cut", scenarios: names("names of keys"),
			breakIt: keysNamed(func(key string) string { return key[:min(len(key), fencing.MaxNameLen-1)] }),
		},
		{
			name: "overdue keys stay", scenarios: names("overdue keys go in small steps", "overdue keys are swept"),
			breakIt: func(b *breakable) {
				b.remove = func([]storage.RecordID, func(storage.RecordID) bool) []storage.RecordID { return nil }
			},
		},
		{
			name: "overdue keys go at once", scenarios: names("overdue keys go in small steps"),
			breakIt: func(b *breakable) {
				b.remove = slices.DeleteFunc[[]storage.RecordID]
			},
		},
		{
			name: "overdue keys go while their token is the mark", scenarios: names("overdue keys go in small steps", "overdue keys are swept"),
			breakIt: func(b *breakable) {
				b.remove = func(overdue []storage.RecordID, _ func(storage.RecordID) bool) []storage.RecordID {
					return removeRight(overdue, func(storage.RecordID) bool { return false })
				}
			},
		},
		{
			name: "keys go that are not overdue", scenarios: names("overdue keys go in small steps", "overdue keys are swept"),
			breakIt: func(b *breakable) {
				b.remove = func(_ []storage.RecordID, held func(storage.RecordID) bool) []storage.RecordID {
					var all []storage.RecordID
					for id, a := range b.answers {
						if m := b.mark(a.resource); m.Number != a.Number {
							all = append(all, id)
						}
					}
					return removeRight(all, held)
				}
			},
		},
		{
			name: "overdue keys of a token that has ended stay", scenarios: names("overdue keys are swept"),
			breakIt: func(b *breakable) {
				b.remove = func(overdue []storage.RecordID, _ func(storage.RecordID) bool) []storage.RecordID {
					return removeRight(overdue, func(id storage.RecordID) bool { return b.mark(id.Resource).Number == b.answers[id].Number })
				}
			},
		},
		{
			name: "an update's function is called again", breakIt: func(b *breakable) { b.alwaysCall = true },
			scenarios: names("an update with a key"),
		},
	}
}
