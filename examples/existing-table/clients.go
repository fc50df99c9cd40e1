package main

import (
	"context"
	"database/sql"
	"errors"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/fencegate/fencegate/examples/existing-table/coupons"
	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/storage/pgguard"
)

// client is a way to write to the table: take reads the stock and writes it back less one, in
// a transaction that begins with enter. The zero token leaves enter out, as code that nobody has
// changed yet does.
type client struct {
	name string
	take func(ctx context.Context, t fencing.Token) error
}

func clients(c config, pool *pgxpool.Pool) []client {
	return []client{
		{"pgx", func(ctx context.Context, t fencing.Token) error { return withPgx(ctx, pool, t) }},
		{"database/sql", func(ctx context.Context, t fencing.Token) error { return withSQL(ctx, stdlib.OpenDBFromPool(pool), t) }},
		{"sqlc", func(ctx context.Context, t fencing.Token) error { return withSqlc(ctx, pool, t) }},
		{"psql", func(ctx context.Context, t fencing.Token) error { return withPsql(ctx, c, t) }},
		{"Python", func(ctx context.Context, t fencing.Token) error { return withPython(ctx, c, t) }},
	}
}

// errNoToken is what the guard says to code that does not enter.
var errNoToken = errors.New("the transaction has no token")

// explain turns the database's refusal into a *fencing.StaleError, or errNoToken.
func explain(err error, t fencing.Token) error {
	err = pgguard.Explain(err, t)
	if refused, ok := errors.AsType[*pgguard.RefusedError](err); ok && refused.Code == pgguard.CodeNoToken {
		return errNoToken
	}
	return err
}

// withPgx is the whole of it in pgx.
func withPgx(ctx context.Context, pool *pgxpool.Pool, t fencing.Token) error {
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if t != (fencing.Token{}) {
			if err := pgguard.Enter(ctx, tx, t); err != nil {
				return err
			}
		}
		var stock int
		if err := tx.QueryRow(ctx, "select stock from coupons where id = 42").Scan(&stock); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "update coupons set stock = $1 where id = 42", stock-1)
		return err
	})
	return explain(err, t)
}

// withSQL is the same in database/sql. What builds upon it (GORM, sqlx, bun) hands its *sql.Tx to
// EnterSQL.
func withSQL(ctx context.Context, db *sql.DB, t fencing.Token) error {
	defer func() { _ = db.Close() }()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if t != (fencing.Token{}) {
		if err := pgguard.EnterSQL(ctx, tx, t); err != nil {
			return err
		}
	}
	var stock int
	if err := tx.QueryRowContext(ctx, "select stock from coupons where id = 42").Scan(&stock); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "update coupons set stock = $1 where id = 42", stock-1); err != nil {
		return explain(err, t)
	}
	return explain(tx.Commit(), t)
}

// withSqlc is the same with generated code, which is what the team had: only Enter is new.
func withSqlc(ctx context.Context, pool *pgxpool.Pool, t fencing.Token) error {
	id, err := strconv.ParseInt(strings.TrimPrefix(resource, "coupon:"), 10, 64)
	if err != nil {
		return err
	}
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if t != (fencing.Token{}) {
			if err := pgguard.Enter(ctx, tx, t); err != nil {
				return err
			}
		}
		q := coupons.New(tx)
		stock, err := q.Stock(ctx, id)
		if err != nil {
			return err
		}
		return q.SetStock(ctx, coupons.SetStockParams{ID: id, Stock: stock - 1})
	})
	return explain(err, t)
}
