package sim_test

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/storage"
)

// dataHost is the data store's server: the product's rule over maps. Every restart is a new
// incarnation, in which all marks count as retired.
type dataHost struct {
	host
	net     *network
	h       *history
	planted planted
	dataset
	copies []dataset // older ones, to come back from
}

// dataset is all that the store keeps.
type dataset struct {
	marks   map[string]fencing.Mark
	records map[storage.RecordID]storage.Record
	answers map[storage.RecordID]storage.Answer
	values  map[string][]string // by resource, every value it had, in order; for the checks
}

func newDataset() dataset {
	return dataset{
		marks: map[string]fencing.Mark{}, records: map[storage.RecordID]storage.Record{},
		answers: map[storage.RecordID]storage.Answer{}, values: map[string][]string{},
	}
}

func (d dataset) clone() dataset {
	c := dataset{maps.Clone(d.marks), maps.Clone(d.records), maps.Clone(d.answers), maps.Clone(d.values)}
	for r, list := range c.values {
		c.values[r] = slices.Clone(list)
	}
	return c
}

// restart begins a new incarnation, with the data of then.
func (s *dataHost) restart(with dataset) {
	s.h.restarted(s.dataset, with)
	s.dataset = with
	for r, m := range s.marks {
		m.Retired = true
		s.marks[r] = m
	}
}

func (s *dataHost) mark(resource string) fencing.Mark {
	if m, ok := s.marks[resource]; ok {
		return m
	}
	return fencing.Absent(0)
}

// change is raise, retire and evict.
func (s *dataHost) change(what string, t fencing.Token, do func(m fencing.Mark) (fencing.Mark, error)) error {
	before := s.mark(t.Resource)
	after, err := do(before)
	if err == nil {
		s.marks[t.Resource] = after
	}
	s.h.marked(what, t, before, s.mark(t.Resource), err)
	return err
}

func (s *dataHost) raise(t fencing.Token) error {
	return s.change("raise", t, func(m fencing.Mark) (fencing.Mark, error) {
		if s.planted == noGrantCompare && t.Number == m.Number && !m.Retired {
			return m, nil
		}
		return m.Raise(t)
	})
}

// current judges a token, as the planted bug has it.
func (s *dataHost) current(t fencing.Token) error {
	m := s.mark(t.Resource)
	switch s.planted {
	case acceptsStale:
		return nil
	case noGrantCompare:
		m.Grant = t.Grant
	}
	return m.Current(t)
}

func (s *dataHost) read(t fencing.Token, key string) (storage.Record, error) {
	if err := s.current(t); err != nil {
		return storage.Record{}, err
	}
	s.h.accepted("read", t, s.mark(t.Resource))
	return s.get(t.Resource, key)
}

func (s *dataHost) get(resource, key string) (storage.Record, error) {
	rec, ok := s.records[storage.RecordID{Resource: resource, Key: key}]
	if !ok {
		return storage.Record{}, storage.ErrNotFound
	}
	return rec, nil
}

// commit judges and writes in one step. later lets a planted bug write after it has judged.
func (s *dataHost) commit(c storage.Commit) storage.Outcome {
	v := storage.View{Marks: map[string]fencing.Mark{}, Bases: map[string]int64{}, Records: map[storage.RecordID]storage.Record{}}
	for _, t := range c.Tokens {
		v.Marks[t.Resource] = s.mark(t.Resource)
		if s.planted != none && s.current(t) == nil {
			v.Marks[t.Resource] = fencing.Mark{Number: t.Number, Grant: t.Grant}
		}
		if s.planted == fenceFirst {
			if err := s.current(t); err != nil {
				return storage.Outcome{Err: err}
			}
		}
	}
	for _, op := range c.Ops {
		if rec, ok := s.records[op.ID()]; ok {
			v.Records[op.ID()] = rec
		}
	}
	id, keyed := c.KeyID()
	if a, ok := s.answers[id]; ok && keyed && s.planted != keyForgotten {
		v.Answer = &a
	}
	res, ch, err := storage.Evaluate(c, v)
	write := func() {
		if ch.Answer != nil {
			s.answers[id] = *ch.Answer
		}
		for _, rec := range ch.Put {
			s.h.applied(s, c, string(rec.Value), string(s.records[storage.RecordID{Resource: rec.Resource, Key: rec.Key}].Value))
			s.records[storage.RecordID{Resource: rec.Resource, Key: rec.Key}] = rec
			s.values[rec.Resource] = append(s.values[rec.Resource], string(rec.Value))
		}
	}
	if s.planted == checkThenWrite && err == nil {
		s.net.at(s.net.now()+2, 0, nil, func() bool { write(); return false })
	} else {
		write()
	}
	return storage.Outcome{Result: res, Err: err}
}

// dataClient is a process' driver of the data store.
type dataClient struct {
	link    *link
	to      *dataHost
	planted planted
}

var _ storage.Backend = (*dataClient)(nil)

func (c *dataClient) fenceCall(ctx context.Context, what string, t fencing.Token, do func() error) error {
	_, err := call(ctx, c.link, what, t.String(), func() (struct{}, error) { return struct{}{}, do() })
	return err
}

// Raise implements fencing.Fence.
func (c *dataClient) Raise(ctx context.Context, t fencing.Token) error {
	err := c.fenceCall(ctx, "raise", t, func() error { return c.to.raise(t) })
	if c.planted == raiseAgain && fencing.OutcomeOf(err) == fencing.Unknown && ctx.Err() == nil {
		err = c.fenceCall(ctx, "raise", t, func() error { return c.to.raise(t) })
	}
	return err
}

// Retire implements fencing.Fence.
func (c *dataClient) Retire(ctx context.Context, t fencing.Token) error {
	return c.fenceCall(ctx, "retire", t, func() error {
		if c.planted == retireLost {
			return nil
		}
		return c.to.change("retire", t, func(m fencing.Mark) (fencing.Mark, error) { return m.Retire(t), nil })
	})
}

// Evict implements fencing.Fence.
func (c *dataClient) Evict(ctx context.Context, t fencing.Token) error {
	return c.fenceCall(ctx, "evict", t, func() error {
		if c.planted == evictLost {
			return nil
		}
		return c.to.change("evict", t, func(m fencing.Mark) (fencing.Mark, error) { return m.Evict(t), nil })
	})
}

// Mark implements fencing.Fence.
func (c *dataClient) Mark(ctx context.Context, resource string) (fencing.Mark, error) {
	return call(ctx, c.link, "mark", resource, func() (fencing.Mark, error) { return c.to.mark(resource), nil })
}

// Apply implements storage.Backend.
func (c *dataClient) Apply(ctx context.Context, batch []storage.Commit) []storage.Outcome {
	out := make([]storage.Outcome, len(batch))
	for i, commit := range batch {
		got, err := call(ctx, c.link, "commit", commit.Tokens[0].String()+" "+commit.Key, func() (storage.Outcome, error) {
			return c.to.commit(commit), nil
		})
		if out[i] = got; err != nil {
			out[i].Err = err
		}
	}
	return out
}

// Get implements storage.Backend.
func (c *dataClient) Get(ctx context.Context, resource, key string) (storage.Record, error) {
	return call(ctx, c.link, "get", resource, func() (storage.Record, error) { return c.to.get(resource, key) })
}

// GetFenced implements storage.Backend.
func (c *dataClient) GetFenced(ctx context.Context, t fencing.Token, key string) (storage.Record, error) {
	return call(ctx, c.link, "read", t.String(), func() (storage.Record, error) { return c.to.read(t, key) })
}

// List implements storage.Backend.
func (c *dataClient) List(context.Context, string, string, string, int) ([]storage.Record, error) {
	return nil, errors.ErrUnsupported
}
