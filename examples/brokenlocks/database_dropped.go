package main

import (
	"context"
	"errors"
)

func databaseConnectionDropped() Exhibit {
	return Exhibit{
		Name:  "database-connection-dropped",
		Title: "A database lock whose connection dropped unnoticed",
		Seen:  "pg_advisory_lock and GET_LOCK beside a connection pool; schedulers and migration tools",
		Words: []string{
			"An advisory lock belongs to the session that took it, and lasts as long as its connection.",
			"The connection breaks (pg_terminate_backend stands for the firewall, the pooler or the failover that does it), the database frees the lock at once, and A's pool hands out another connection for the next statement without a word.",
			"The lock cannot tell A; the store does, at the write, because B's number was raised there when B got the lock.",
		},
		Needs: Postgres,
		Thing: Online,
		Tell:  tellConnectionDropped,
	}
}

func tellConnectionDropped(ctx context.Context, s *Scene) error {
	a, done, err := s.session(ctx) // A keeps it aside for the lock, and works on the pool
	if err != nil {
		return err
	}
	defer done()
	b, done, err := s.session(ctx)
	if err != nil {
		return err
	}
	defer done()

	if _, err := a.Exec(ctx, "SELECT pg_advisory_lock(42)"); err != nil {
		return err
	}
	s.Lock(A, "pg_advisory_lock(42)", "done")
	s.Acquired(ctx, A)
	n := s.Read(ctx, A)

	if _, err := s.DB.Exec(ctx, "SELECT pg_terminate_backend($1)", a.PgConn().PID()); err != nil {
		return err
	}
	s.Bad(Lock, "the connection of A breaks")

	// It waits for as long as A's session lives.
	if _, err := b.Exec(ctx, "SELECT pg_advisory_lock(42)"); err != nil {
		return err
	}
	s.Lock(B, "pg_advisory_lock(42)", "done")
	s.Acquired(ctx, B)
	s.Change(ctx, B, -1)
	if _, err := b.Exec(ctx, "SELECT pg_advisory_unlock(42)"); err != nil {
		return err
	}
	s.Lock(B, "pg_advisory_unlock(42)", "")

	s.Write(ctx, A, n+1)
	if _, err := a.Exec(ctx, "SELECT pg_advisory_unlock(42)"); err == nil {
		return errors.New("the connection of A lived on")
	}
	s.Bad(A, "now it finds out")
	return nil
}
