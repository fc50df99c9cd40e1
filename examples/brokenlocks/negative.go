package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/diagram"
	"github.com/fencegate/fencegate/storage"
	"github.com/fencegate/fencegate/storage/pgstore"
)

func negativeStock() Exhibit {
	return Exhibit{
		Name:  "negative-stock",
		Title: "stock - 1 without a condition goes negative",
		Seen:  "shops, vouchers, seats, quotas: wherever an if in the program guards an UPDATE in the database",
		Words: []string{
			"Both buyers look first, see that one is left, and then take one away.",
			"Nothing ties the look to the UPDATE, so both are done, and the stock says -1: one coupon was sold twice.",
			"No lock and no fence is needed here, only the condition inside the statement that writes; Add of fencegate carries it as its minimum.",
		},
		Needs:   Postgres,
		Thing:   Coupon,
		NoFence: true,
		Second:  "The condition in the statement",
		Tell:    tellNegativeStock,
	}
}

func tellNegativeStock(ctx context.Context, s *Scene) error {
	if err := s.lastOne(ctx); err != nil {
		return err
	}
	a, b := s.Read(ctx, A), s.Read(ctx, B)
	s.Must(a == 1 && b == 1, "both see that one is left")
	s.Note(A, "1 left: go")
	s.Note(B, "1 left: go")
	if s.Fenced {
		return tellCondition(ctx, s)
	}
	for _, who := range []string{A, B} {
		if _, err := s.DB.Exec(ctx, "UPDATE counters SET value = value - 1 WHERE name = $1", s.thing.key()); err != nil {
			return err
		}
		s.Accepted(who, "UPDATE value = value - 1", -1)
	}
	s.Damage("1 was left, and 2 were sold")
	return nil
}

// lastOne sells all but one before the story begins.
func (s *Scene) lastOne(ctx context.Context) error {
	_, err := s.DB.Exec(ctx, "UPDATE counters SET value = 1 WHERE name = $1", s.thing.key())
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen.CounterOK = 1
	return err
}

func tellCondition(ctx context.Context, s *Scene) error {
	for _, who := range []string{A, B} {
		tag, err := s.DB.Exec(ctx, "UPDATE counters SET value = value - 1 WHERE name = $1 AND value > 0", s.thing.key())
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			s.Refused(who, "UPDATE value = value - 1 WHERE value > 0")
			continue
		}
		s.Accepted(who, "UPDATE value = value - 1 WHERE value > 0", -1)
	}
	return tellMinimum(ctx, s)
}

// tellMinimum sells another last one, on a store of fencegate, under one token: the data says no, not
// the fence.
func tellMinimum(ctx context.Context, s *Scene) error {
	b, err := pgstore.New(ctx, s.DB, nil)
	if err != nil {
		return err
	}
	store, err := storage.New(b, nil)
	if err != nil {
		return err
	}
	t := fencing.Token{Resource: s.thing.key(), Number: 1, Grant: fencing.NewGrant()}
	if err := store.Raise(ctx, t); err != nil {
		return err
	}
	if _, err := store.Put(ctx, t, count, storage.Counter(1)); err != nil {
		return err
	}
	s.Note(A, "1 more comes in")
	sell := storage.Commit{Tokens: []fencing.Token{t}, Ops: []storage.Op{storage.Add(t.Resource, count, -1, 0)}}
	if _, err := store.Commit(ctx, sell); err != nil {
		return err
	}
	s.draw(diagram.Item{From: A, To: Store, Label: "Add(-1, minimum 0): 0 left", Style: diagram.Good})
	if _, err := store.Commit(ctx, sell); !errors.Is(err, storage.ErrBelowMinimum) {
		return fmt.Errorf("the second sale was not refused by its minimum: %w", err)
	}
	s.draw(diagram.Item{From: B, To: Store, Label: "Add(-1, minimum 0): REFUSED, below minimum", Style: diagram.Bad})
	return nil
}
