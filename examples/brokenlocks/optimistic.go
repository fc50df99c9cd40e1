package main

import (
	"context"
	"fmt"
	"time"

	"github.com/fencegate/fencegate/internal/diagram"
)

// rounds is how often B is done while A works once.
const rounds = 3

func optimisticStarves() Exhibit {
	return Exhibit{
		Name:  "optimistic-starves",
		Title: "Optimistic version check that starves",
		Seen:  "WHERE version = ?, JPA's @Version, If-Match, resourceVersion: wherever one task takes longer than the others",
		Words: []string{
			"Whoever reads remembers the version, and writes only if it is still the same: nothing is ever lost.",
			"A's task is slow and B's is quick, so the version has always moved on when A is done, and A does the same work again for as long as B has customers.",
			"What helps is a lock with a line: A waits its turn once, works once and writes once, B waits behind it, and the fence makes the write as safe as the version did.",
		},
		Needs:    Postgres,
		Thing:    Coupon,
		Liveness: true,
		Second:   "A lock with a line, and a fenced store",
		Tell: func(ctx context.Context, s *Scene) error {
			if s.Fenced {
				return tellInLine(ctx, s)
			}
			return tellStarves(ctx, s)
		},
	}
}

func tellStarves(ctx context.Context, s *Scene) error {
	if _, err := s.DB.Exec(ctx, "ALTER TABLE counters ADD version bigint NOT NULL DEFAULT 1"); err != nil {
		return err
	}
	for range rounds {
		slow, err := s.readVersion(ctx, A)
		if err != nil {
			return err
		}
		quick, err := s.readVersion(ctx, B)
		if err != nil {
			return err
		}
		done, err := s.writeVersion(ctx, B, quick, -1)
		s.Must(done && err == nil, "B finds the version that it has read")
		done, err = s.writeVersion(ctx, A, slow, -1)
		s.Must(!done && err == nil, "A finds another version")
	}
	s.Damage("A has done its work %d times, and has written nothing", rounds)
	return nil
}

// versioned is a value as it was read.
type versioned struct{ value, version int64 }

func (s *Scene) readVersion(ctx context.Context, who string) (v versioned, err error) {
	err = s.DB.QueryRow(ctx, "SELECT value, version FROM counters WHERE name = $1", s.thing.key()).Scan(&v.value, &v.version)
	s.draw(diagram.Item{From: who, To: Store, Label: fmt.Sprintf("read: %d %s, version %d", v.value, s.thing.unit(), v.version)})
	return v, err
}

// writeVersion adds delta to what who has read, if nobody has written since.
func (s *Scene) writeVersion(ctx context.Context, who string, read versioned, delta int64) (done bool, err error) {
	tag, err := s.DB.Exec(ctx, "UPDATE counters SET value = $1, version = version + 1 WHERE name = $2 AND version = $3",
		read.value+delta, s.thing.key(), read.version)
	if err != nil {
		return false, err
	}
	label := fmt.Sprintf("write %d if version = %d", read.value+delta, read.version)
	if tag.RowsAffected() == 0 {
		s.Refused(who, label)
		return false, nil
	}
	s.Accepted(who, label, delta)
	return true, nil
}

// tellInLine: B comes as often, and waits while A works.
func tellInLine(ctx context.Context, s *Scene) error {
	s.TTL = time.Minute // who holds a lease from a Locker has it renewed; here it just lasts
	s.Grant(ctx, A)
	n := s.Read(ctx, A)
	s.Note(A, "works for long")

	served := make(chan struct{})
	go func() {
		defer close(served)
		for range rounds {
			s.Grant(ctx, B)
			s.Change(ctx, B, -1)
			s.Release(ctx, B)
		}
	}()
	err := s.until(ctx, func() (bool, error) {
		st, err := s.issuer.Status(ctx, s.thing.key())
		return st.Waiters > 0, err
	})
	if err != nil {
		s.fail(fmt.Errorf("waiting for B to stand in line: %w", err)) // B's waiting ends with it
	}
	s.Write(ctx, A, n-1)
	s.Release(ctx, A)
	<-served
	return nil
}
