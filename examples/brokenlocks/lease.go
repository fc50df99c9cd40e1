package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/diagram"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/locking/memlock"
	"github.com/fencegate/fencegate/locking/pglock"
	"github.com/fencegate/fencegate/locking/redislock"
	"github.com/fencegate/fencegate/storage"
)

// Grant takes the lock of fencegate as who, and waits for it: a lease that ends by itself and whose
// token is raised in the store before who has it. It is for the second telling of what stands still,
// where no fence helps, and works in no other.
func (s *Scene) Grant(ctx context.Context, who string) {
	if s.failed() || !s.hasLeases() {
		return
	}
	s.draw(diagram.Item{From: who, To: Lock, Label: "acquire, and wait"})
	g, err := s.issuer.Grant(ctx, locking.Request{Resource: s.thing.key(), Label: who, TTL: s.TTL, Wait: -1, Floor: firstNumber - 1})
	if err != nil {
		s.Must(!errors.Is(err, locking.ErrLost), "%s takes the lock before it ends", who)
		s.fail(fmt.Errorf("%s acquires: %w", who, err))
		return
	}
	s.mu.Lock()
	s.tokens[who] = g.Token
	s.mu.Unlock()
	s.draw(
		diagram.Item{From: Lock, To: Store, Label: fmt.Sprintf("raise %d", g.Token.Number)},
		diagram.Item{From: Lock, To: who, Label: fmt.Sprintf("token %d", g.Token.Number)})
}

// Renew makes what Grant gave to who last for one TTL from now.
func (s *Scene) Renew(ctx context.Context, who string) {
	if s.failed() || !s.hasLeases() {
		return
	}
	t, _ := s.of(who)
	if err := s.issuer.Renew(ctx, s.TTL, []fencing.Token{t})[0]; err != nil {
		s.Must(!errors.Is(err, locking.ErrLost), "%s renews in time", who)
		s.fail(fmt.Errorf("%s renews: %w", who, err))
		return
	}
	s.Lock(who, fmt.Sprintf("renew %d", t.Number), fmt.Sprintf("%v from now", s.TTL))
}

// Release ends what Grant gave to who.
func (s *Scene) Release(ctx context.Context, who string) {
	if s.failed() || !s.hasLeases() {
		return
	}
	t, _ := s.of(who)
	if _, err := s.issuer.Release(ctx, t); err != nil {
		s.fail(fmt.Errorf("%s releases: %w", who, err))
		return
	}
	s.draw(diagram.Item{From: who, To: Lock, Label: fmt.Sprintf("release %d", t.Number)})
}

func (s *Scene) hasLeases() bool {
	if s.issuer == nil {
		s.fail(errors.New("there are leases in the second telling only"))
	}
	return s.issuer != nil
}

// newIssuer returns the issuer of a telling: on its Redis or its PostgreSQL, and in memory where the
// Redis is a stand-in.
func (s *Scene) newIssuer(ctx context.Context, store *storage.Store, real bool) (locking.Issuer, error) {
	var b locking.Backend
	var err error
	switch {
	case s.DB != nil:
		b, err = pglock.New(ctx, s.DB, nil)
	case real:
		b, err = redislock.New(s.Redis[0], nil)
	default:
		b = memlock.New()
	}
	if err != nil {
		return nil, err
	}
	return locking.NewIssuer(b, []fencing.Fence{store}, nil)
}
