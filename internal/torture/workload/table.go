package workload

import (
	"context"
	_ "embed" // the statements
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/pgtx"
	"github.com/fencegate/fencegate/internal/torture/history"
	"github.com/fencegate/fencegate/storage/pgguard"
)

var (
	//go:embed sql/enter.sql
	enterSQL string
	//go:embed sql/row.sql
	rowSQL string
	//go:embed sql/write.sql
	writeSQL string
	//go:embed sql/audit.sql
	auditSQL string
	//go:embed sql/audits.sql
	auditsSQL string
)

// table writes to guarded tables by raw SQL, as a client in any language does.
//
// A row's version is n+1, that of an audit 1.
type table struct{}

var errNoPool = errors.New("workload table needs a store in Postgres, and its pool")

func (table) Name() string { return "table" }

func (table) Resources(prefix string, i int) []string { return []string{named(prefix, "table", i)} }

func (table) Seed(ctx context.Context, a Access, resources []string) (cells []history.Cell, err error) {
	if a.Pool == nil {
		return nil, errNoPool
	}
	r := resources[0]
	err = locked(ctx, a, resources, func(tokens []fencing.Token) error {
		return pgx.BeginFunc(ctx, a.Pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, enterSQL, r, tokens[0].Text()); err != nil {
				return pgguard.Explain(err, tokens...)
			}
			_, err := tx.Exec(ctx, writeSQL, r, 0, "seed")
			return err
		})
	})
	return []history.Cell{{Resource: r, Key: "row", Value: "0 seed", Version: 1}}, err
}

func (w table) Turn(ctx context.Context, s *Seat, resources []string) {
	s.take(ctx, plan{name: w.Name(), transact: w.transact}, resources)
}

// transact reads and writes in one transaction, and writes down what it is about to commit before it does.
func (table) transact(ctx context.Context, t *turn, tokens []fencing.Token, how manner) error {
	long, cancel := context.WithTimeout(context.WithoutCancel(ctx), t.Call+how.stand)
	defer cancel()
	op := t.op(history.Commit)
	op.ID = t.Next()
	op.Tokens, op.Forged = written(tokens), how.forged
	return t.call(&op, func() error {
		if t.Pool == nil {
			return fencing.AsFailed(errNoPool)
		}
		conn, err := t.Pool.Acquire(long)
		if err != nil {
			return fencing.AsFailed(err)
		}
		defer conn.Release()
		// The level is said, not left to a default.
		tx, err := conn.BeginTx(long, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
		if err != nil {
			return pgtx.Before(err, false)
		}
		defer pgtx.Rollback(long, conn)
		if err := fill(long, ctx, tx, &op, tokens[0], how); err != nil {
			return before(err, tokens[0])
		}
		t.Log(op)
		pgtx.Forget(conn.Conn())
		tag, err := conn.Exec(long, "commit")
		return pgtx.Committed(conn.Conn(), tag, err)
	})
}

// fill does what stands before COMMIT. ctx is the call's, stop ends its standing still.
func fill(ctx, stop context.Context, tx pgx.Tx, op *history.Op, tok fencing.Token, how manner) error {
	if !how.bare {
		if _, err := tx.Exec(ctx, enterSQL, tok.Resource, tok.Text()); err != nil {
			return err
		}
	}
	row := history.Cell{Resource: tok.Resource, Key: "row"}
	var n, seq int64
	var by string
	switch err := tx.QueryRow(ctx, rowSQL, tok.Resource).Scan(&n, &by); {
	case err == nil:
		row.Value, row.Version = fmt.Sprintf("%d %s", n, by), n+1
	case !errors.Is(err, pgx.ErrNoRows):
		return err
	}
	sleep(stop, how.stand)
	if _, err := tx.Exec(ctx, writeSQL, tok.Resource, n+1, op.ID); err != nil {
		return err
	}
	if err := tx.QueryRow(ctx, auditSQL, tok.Resource, tok.Number, op.ID).Scan(&seq); err != nil {
		return err
	}
	op.Cells = []history.Cell{row}
	op.Writes = []history.Write{
		{Kind: "put", Resource: tok.Resource, Key: "row", Value: fmt.Sprintf("%d %s", n+1, op.ID), Version: n + 2},
		{Kind: "put", Resource: tok.Resource, Key: auditKey(seq), Value: fmt.Sprintf("%d %s", tok.Number, op.ID), Version: 1},
	}
	return nil
}

// before judges an error that came before COMMIT was sent: a refusal, or nothing happened.
func before(err error, tok fencing.Token) error {
	if e := pgguard.Explain(err, tok); fencing.OutcomeOf(e) == fencing.Refused {
		return e
	}
	return pgtx.Before(err, false)
}

func auditKey(seq int64) string { return fmt.Sprintf("audit.%08d", seq) }

func (table) Final(ctx context.Context, a Access, resources []string) (cells []history.Cell, err error) {
	if a.Pool == nil {
		return nil, errNoPool
	}
	r := resources[0]
	var n, seq, number int64
	var op string
	rows, err := a.Pool.Query(ctx, rowSQL, r)
	if err != nil {
		return nil, err
	}
	if _, err = pgx.ForEachRow(rows, []any{&n, &op}, func() error {
		cells = append(cells, history.Cell{Resource: r, Key: "row", Value: fmt.Sprintf("%d %s", n, op), Version: n + 1})
		return nil
	}); err != nil {
		return nil, err
	}
	if rows, err = a.Pool.Query(ctx, auditsSQL, r); err != nil {
		return nil, err
	}
	_, err = pgx.ForEachRow(rows, []any{&seq, &number, &op}, func() error {
		cells = append(cells, history.Cell{Resource: r, Key: auditKey(seq), Value: fmt.Sprintf("%d %s", number, op), Version: 1})
		return nil
	})
	return cells, err
}
