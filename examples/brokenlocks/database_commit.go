package main

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

func databaseEarlyCommit() Exhibit {
	return Exhibit{
		Name:  "database-early-commit",
		Title: "A row lock in the caller's own transaction, freed by an early COMMIT",
		Seen:  "SELECT ... FOR UPDATE in a service with helpers, decorators and libraries that commit",
		Words: []string{
			"FOR UPDATE keeps the row until the transaction ends, and keeps everybody else out who locks it first.",
			"A helper that A calls commits the same transaction, to make sure of its own line in the audit log: the lock is gone, nothing says so, and the rest of A runs beside B.",
			"A token is not tied to a transaction: A's is the same after the COMMIT, B's is newer, and the store refuses A's write.",
		},
		Needs: Postgres,
		Thing: Coupon,
		Tell:  tellEarlyCommit,
	}
}

func tellEarlyCommit(ctx context.Context, s *Scene) error {
	_, err := s.DB.Exec(ctx, `CREATE TABLE shops (id int PRIMARY KEY); INSERT INTO shops VALUES (7);
		CREATE TABLE audit (entry text)`)
	if err != nil {
		return err
	}
	a, err := s.DB.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = a.Rollback(context.WithoutCancel(ctx)) }()
	b, err := s.DB.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = b.Rollback(context.WithoutCancel(ctx)) }()

	if err := lockShop(ctx, a); err != nil {
		return err
	}
	s.Lock(A, "BEGIN; ... FOR UPDATE NOWAIT", "1 row")
	s.Acquired(ctx, A)
	n := s.Read(ctx, A)

	// B looks without waiting, to show that the lock is one.
	s.Must(errors.Is(lockShop(ctx, b), errShopLocked), "B finds the row locked")
	s.Lock(B, "... FOR UPDATE NOWAIT", "locked")

	if err := audit(ctx, a, "A hands out a coupon"); err != nil {
		return err
	}
	s.Lock(A, "audit(): INSERT ...; COMMIT", "")
	s.Bad(Lock, "the row is free")

	if err := lockShop(ctx, b); err != nil {
		return err
	}
	s.Lock(B, "... FOR UPDATE NOWAIT", "1 row")
	s.Acquired(ctx, B)
	s.Change(ctx, B, -1)
	if err := b.Commit(ctx); err != nil {
		return err
	}
	s.Lock(B, "COMMIT", "")

	s.Write(ctx, A, n-1)
	return nil
}

var errShopLocked = errors.New("the shop's row is locked by somebody else")

// lockShop locks the row whose lock is the right to touch the shop's coupons. A refusal leaves the
// transaction usable.
func lockShop(ctx context.Context, tx pgx.Tx) error {
	attempt, err := tx.Begin(ctx) // a savepoint
	if err != nil {
		return err
	}
	_, err = attempt.Exec(ctx, "SELECT FROM shops WHERE id = 7 FOR UPDATE NOWAIT")
	if failed, ok := errors.AsType[*pgconn.PgError](err); ok && failed.Code == "55P03" {
		err = errShopLocked
	}
	if err != nil {
		return errors.Join(err, attempt.Rollback(ctx))
	}
	return attempt.Commit(ctx)
}

// audit is the helper: what it writes must not be undone with the rest, so it commits.
func audit(ctx context.Context, tx pgx.Tx, entry string) error {
	if _, err := tx.Exec(ctx, "INSERT INTO audit VALUES ($1)", entry); err != nil {
		return err
	}
	return tx.Commit(ctx)
}
