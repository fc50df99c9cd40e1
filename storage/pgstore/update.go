package pgstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/pgtx"
)

// errManaged is what fn gets that ends its transaction.
var errManaged = errors.New("pgstore: the transaction of Update ends with its function: return nil or an error")

// Update runs fn in a transaction whose first statement is the fence: it goes on only if
// every token is the mark, and no newer token is raised before it ends. So whatever fn
// does in this transaction, in any table, is done by the holder or not at all. It commits if fn
// returns nil and rolls back if fn returns an error, panics or leaves by runtime.Goexit.
//
// The transaction is READ COMMITTED. fn must not end it, must not use it after it has
// returned, and must not raise its resources; no raise is let in while it runs, so it
// should be short: bound it with ctx. See Options.MaxIdle for when it is ended from outside. Update is strict: a token
// without a grant id is refused.
//
// An error of fn comes back so that errors.Is and errors.As find it, with the outcome that
// it carries, else as failed. fn is never called twice by one Update.
func (b *Backend) Update(ctx context.Context, fn func(pgx.Tx) error, tokens ...fencing.Token) error {
	tokens, err := b.admit(ctx, tokens)
	if err != nil {
		return err
	}
	conn, err := b.pool.Acquire(ctx)
	if err != nil {
		return fencing.AsFailed(err)
	}
	defer conn.Release()
	defer pgtx.Rollback(ctx, conn) // on every way out that did not commit, a panic too
	tx, err := b.enterAgain(ctx, conn, tokens)
	if err != nil {
		return err
	}
	err = fn(managedTx{tx})
	closed := conn.Conn().IsClosed()
	if !closed && conn.Conn().PgConn().TxStatus() == 'I' {
		// fn's error is not wrapped: errors.Is must not find in it that this was refused.
		return fencing.AsUnknown(fmt.Errorf("fn ended the transaction itself, it may have been committed (fn returned: %v)", err)) //nolint:errorlint // see above
	}
	if err != nil {
		return fencing.AsFailed(err)
	}
	if closed {
		return fencing.AsFailed(errors.New("the connection was lost before COMMIT"))
	}
	if err := ctx.Err(); err != nil {
		return fencing.AsFailed(err)
	}
	pgtx.Forget(conn.Conn())
	tag, err := conn.Exec(ctx, "commit")
	return pgtx.Committed(conn.Conn(), tag, err)
}

// admit validates the tokens and sorts them by resource.
func (b *Backend) admit(ctx context.Context, tokens []fencing.Token) ([]fencing.Token, error) {
	if len(tokens) == 0 {
		return nil, &fencing.InvalidError{What: "tokens", Allowed: "one or more"}
	}
	tokens = slices.SortedFunc(slices.Values(tokens), func(a, b fencing.Token) int {
		return cmp.Compare(a.Resource, b.Resource)
	})
	for i, t := range tokens {
		if err := t.Validate(); err != nil {
			return nil, err
		}
		if i > 0 && t.Resource == tokens[i-1].Resource {
			return nil, &fencing.InvalidError{What: "tokens", Allowed: "one for " + t.Resource + ", not two"}
		}
	}
	for _, t := range tokens {
		if t.Grant != "" {
			continue
		}
		m, err := b.Mark(ctx, t.Resource)
		if err != nil {
			return nil, err
		}
		return nil, m.Check(t, fencing.Strict)
	}
	return tokens, nil
}

// enterAgain is enter, tried again as long as nothing but an accident kept it out.
func (b *Backend) enterAgain(ctx context.Context, conn *pgxpool.Conn, tokens []fencing.Token) (pgx.Tx, error) {
	for n := 1; ; n++ {
		tx, _, err := b.enter(ctx, conn, tokens, nil, nil)
		if n == attempts || !again(err) {
			return tx, err
		}
		pgtx.Rollback(ctx, conn)
		if !pause(ctx, n) {
			return tx, err
		}
	}
}

// managedTx keeps fn from ending the transaction by accident.
type managedTx struct{ pgx.Tx }

func (managedTx) Commit(context.Context) error   { return errManaged }
func (managedTx) Rollback(context.Context) error { return errManaged }
