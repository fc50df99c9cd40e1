package storagetest_test

import (
	"context"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/storage"
	"github.com/fencegate/fencegate/storage/storagetest"
)

// front is a surface with something changed.
type front struct {
	storagetest.Surface
	commit    func(ctx context.Context, c storage.Commit) (storage.Result, error)
	getFenced func(ctx context.Context, t fencing.Token, key string) (storage.Record, error)
}

func (f front) Commit(ctx context.Context, c storage.Commit) (storage.Result, error) {
	return f.commit(ctx, c)
}

func (f front) GetFenced(ctx context.Context, t fencing.Token, key string) (storage.Record, error) {
	return f.getFenced(ctx, t, key)
}

// brokenFronts break what is in front of a backend: validation and mode.
func brokenFronts() []defect {
	return []defect{
		{
			name: "a refused commit's raise is rolled back", classic: true,
			scenarios: names("classic keeps the raise of a refused commit"),
			surface: func(b *breakable, s storagetest.Surface) storagetest.Surface {
				return front{Surface: s, getFenced: s.GetFenced, commit: func(ctx context.Context, c storage.Commit) (storage.Result, error) {
					before, _ := s.Mark(ctx, c.Tokens[0].Resource)
					res, err := s.Commit(ctx, c)
					if err != nil {
						b.mu.Lock()
						defer b.mu.Unlock()
						b.marks[c.Tokens[0].Resource] = before
					}
					return res, err
				}}
			},
		},
		{
			name: "fenced reads do not raise", classic: true, scenarios: names("classic raises by use", "read-modify-write is not lost"),
			surface: func(_ *breakable, s storagetest.Surface) storagetest.Surface {
				return front{Surface: s, commit: s.Commit, getFenced: func(ctx context.Context, t fencing.Token, key string) (storage.Record, error) {
					return s.Get(ctx, t.Resource, key)
				}}
			},
		},
		{
			name: "nothing is validated", scenarios: names("bad input", "the largest value", "the largest commit"),
			surface: func(b *breakable, s storagetest.Surface) storagetest.Surface {
				return front{Surface: s, getFenced: b.GetFenced, commit: func(ctx context.Context, c storage.Commit) (storage.Result, error) {
					out := b.Apply(ctx, []storage.Commit{c})
					return out[0].Result, out[0].Err
				}}
			},
		},
		{
			name: "use raises in a strict store", scenarios: names("strict never raises by use", "a refusal by the fence changes nothing"),
			surface: func(b *breakable, s storagetest.Surface) storagetest.Surface {
				return front{Surface: s, getFenced: s.GetFenced, commit: func(ctx context.Context, c storage.Commit) (storage.Result, error) {
					for _, t := range c.Tokens {
						_ = b.Raise(ctx, t)
					}
					return s.Commit(ctx, c)
				}}
			},
		},
	}
}
