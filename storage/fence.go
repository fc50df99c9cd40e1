package storage

import (
	"context"
	"fmt"
	"time"

	"github.com/fencegate/fencegate/fencing"
)

// Raise makes t the mark of its resource; see [fencing.Fence]. A plain number is refused
// with fencing.GrantRequired where the store is strict.
func (s *Store) Raise(ctx context.Context, t fencing.Token) error {
	start := time.Now()
	if err := t.Validate(); err != nil {
		return err
	}
	err := s.requireGrant(ctx, t)
	if err == nil {
		err = s.b.Raise(ctx, t)
	}
	s.report(fencing.EventRaised, t, start, err)
	return err
}

// Retire ends t where it is the mark; else it does nothing. See [fencing.Fence].
func (s *Store) Retire(ctx context.Context, t fencing.Token) error {
	if err := t.Validate(); err != nil {
		return err
	}
	return s.b.Retire(ctx, t)
}

// Evict ends t without its holder; see [fencing.Fence]. It does not judge who may evict
// up to which number: issuers do.
func (s *Store) Evict(ctx context.Context, t fencing.Token) error {
	if err := t.Validate(); err != nil {
		return err
	}
	return s.b.Evict(ctx, t)
}

// Mark returns a resource's mark as it is now; see [fencing.Fence].
func (s *Store) Mark(ctx context.Context, resource string) (fencing.Mark, error) {
	if err := fencing.ValidateResource(resource); err != nil {
		return fencing.Mark{}, err
	}
	return s.b.Mark(ctx, resource)
}

// enter is what comes before the backend's own check. A strict store refuses plain
// numbers. A classic store raises, in a committed step of its own: were the raise part
// of the operation, a refusal by the data would roll it back, and an older token could
// write after a newer one was seen.
func (s *Store) enter(ctx context.Context, t fencing.Token) error {
	if s.o.Mode == fencing.Classic {
		return s.b.Raise(ctx, t)
	}
	return s.requireGrant(ctx, t)
}

func (s *Store) requireGrant(ctx context.Context, t fencing.Token) error {
	if s.o.Mode == fencing.Classic || t.Grant != "" {
		return nil
	}
	m, err := s.b.Mark(ctx, t.Resource)
	if err != nil {
		return err
	}
	return m.Check(t, fencing.Strict)
}

func (s *Store) report(kind fencing.EventKind, t fencing.Token, start time.Time, err error) {
	if s.o.OnEvent == nil {
		return
	}
	e := fencing.Event{Time: time.Now(), Kind: kind, Resource: t.Resource, Number: t.Number, Elapsed: time.Since(start)}
	fencing.Explain(&e, err)
	s.o.OnEvent(e)
}

func invalid(what, format string, args ...any) error {
	return &fencing.InvalidError{What: what, Allowed: fmt.Sprintf(format, args...)}
}
