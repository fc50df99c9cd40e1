package prunetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/storage"
)

// The size of the concurrent scenario: resources, and for each of them holders at once, with
// Subject.Grants one after the other. A grant is some six operations. On a machine where the
// holders get in each other's way they go on until enough was written and dropped, for patience
// at most.
const (
	resources = 8
	holders   = 2
	patience  = time.Minute
)

// write is one that was accepted: its version is its place in the order inside the fence.
type write struct{ version, number int64 }

// pile is all that was accepted for one resource.
type pile struct {
	resource string
	mu       sync.Mutex // guards what follows
	number   int64      // the highest that anybody knows of
	writes   []write
}

// draw is a lock store's counter.
func (p *pile) draw(floor int64) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.number = max(p.number, floor) + 1
	return p.number
}

// concurrent has holders of the same resources raise, write, delete, retire and be evicted, and
// prune in between. Every resource's record is deleted now and then, so that its versions
// depend on the bases.
func concurrent(t *testing.T, s Subject) {
	var group sync.WaitGroup
	var dropped, accepted atomic.Int64
	begun := time.Now()
	s.Aged(t)
	enough := func() bool {
		return dropped.Load() >= int64(s.Grants) && accepted.Load() >= int64(resources*s.Grants) || time.Since(begun) > patience
	}
	prune := func() {
		n, err := s.Prune(t.Context(), time.Hour, nil)
		dropped.Add(int64(n))
		if err != nil {
			t.Errorf("prune: %v", err)
		}
	}
	piles := make([]*pile, resources)
	for i := range piles {
		piles[i] = &pile{resource: fmt.Sprintf("r%d", i)}
		for range holders {
			group.Go(func() {
				for n := 0; n < s.Grants || !enough(); n++ {
					if t.Failed() {
						return
					}
					accepted.Add(hold(t, s, piles[i]))
					if rand.IntN(2) == 0 {
						prune()
					}
				}
			})
		}
	}
	group.Wait()
	if dropped.Load() < int64(s.Grants) {
		t.Errorf("only %d marks were dropped", dropped.Load())
	}
	total := 0
	for _, p := range piles {
		slices.SortFunc(p.writes, func(a, b write) int { return int(a.version - b.version) })
		for i := 1; i < len(p.writes); i++ {
			a, b := p.writes[i-1], p.writes[i]
			if a.version == b.version {
				t.Errorf("%s: version %d came twice, by %d and by %d", p.resource, a.version, a.number, b.number)
			}
			if b.number < a.number {
				t.Errorf("%s: a write of %d (version %d) was accepted after one of %d (version %d)", p.resource, b.number, b.version, a.number, a.version)
			}
		}
		total += len(p.writes)
	}
	t.Logf("%d marks were dropped between %d writes", dropped.Load(), total)
	if total < resources*s.Grants {
		t.Errorf("only %d writes were accepted: the holders got in each other's way all the time", total)
	}
}

// hold is one grant: raised above what it is refused for, used, and ended in one way or another.
// It returns how many writes were accepted.
func hold(t *testing.T, s Subject, p *pile) (accepted int64) {
	ctx := t.Context()
	tok := token(p.resource, p.draw(0))
	for err := s.Raise(ctx, tok); err != nil; err = s.Raise(ctx, tok) {
		stale, ok := errors.AsType[*fencing.StaleError](err)
		if !ok {
			t.Errorf("raise: %v", err)
			return 0
		}
		tok = token(p.resource, p.draw(stale.Highest))
	}
	for range 1 + rand.IntN(3) {
		res, err := s.commit(ctx, tok, storage.Put(p.resource, "k", nil))
		if !p.accepted(t, tok, res, err) {
			return accepted
		}
		accepted++
	}
	var err error
	switch rand.IntN(4) {
	case 0:
		_, err = s.commit(ctx, tok, storage.Delete(p.resource, "k"))
		if errors.Is(err, fencing.ErrStale) {
			err = nil
		}
		err = errors.Join(err, s.Retire(ctx, tok))
	case 1:
		err = s.Evict(ctx, tok)
	default:
		err = s.Retire(ctx, tok)
	}
	if err != nil {
		t.Errorf("end %v: %v", tok, err)
	}
	// Late, when the mark may be gone.
	if res, err := s.commit(ctx, tok, storage.Put(p.resource, "k", nil)); err == nil {
		t.Errorf("a write of %v was accepted after its end, as version %d", tok, res.Ops[0].Version)
	}
	if err := s.Raise(ctx, tok); !errors.Is(err, fencing.ErrStale) {
		t.Errorf("a raise of %v after its end: got %v, want ErrStale", tok, err)
	}
	return accepted
}

// accepted notes what a commit was told; false when the token is stale.
func (p *pile) accepted(t *testing.T, tok fencing.Token, res storage.Result, err error) bool {
	switch {
	case err == nil:
		p.mu.Lock()
		defer p.mu.Unlock()
		p.writes = append(p.writes, write{res.Ops[0].Version, tok.Number})
		return true
	case !errors.Is(err, fencing.ErrStale):
		t.Errorf("commit of %v: %v", tok, err)
	}
	return false
}
