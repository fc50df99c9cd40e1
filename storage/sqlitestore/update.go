package sqlitestore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/fencegate/fencegate/fencing"
)

// Update runs fn in a write transaction that began with the fence: it goes on only if
// every token is the mark, and nothing else is written before it ends. So whatever fn does
// in this transaction, in any table of the file, is done by the holder or not at all. It
// commits if fn returns nil and rolls back if fn returns an error, panics or leaves by
// runtime.Goexit.
//
// The transaction holds the only writer: other writes, raises too, wait until it ends. So
// fn should be short, must not call what writes to this backend (it would wait for
// itself, until ctx ends), and must not end the transaction. When ctx ends, the transaction
// is rolled back, whether or not fn has noticed. Update is strict: a token without a
// grant id is refused.
//
// An error of fn comes back so that errors.Is and errors.As find it, with the outcome that
// it carries, else as failed.
func (b *Backend) Update(ctx context.Context, fn func(*sql.Tx) error, tokens ...fencing.Token) error {
	tokens, err := admit(tokens)
	if err != nil {
		return err
	}
	end, err := b.begin()
	if err != nil {
		return err
	}
	defer end()
	tx, err := b.writer.BeginTx(ctx, nil) // waits for the writer
	if err != nil {
		return fencing.AsFailed(fmt.Errorf("begin: %w", err))
	}
	defer tx.Rollback() //nolint:errcheck // for every way out that did not commit, a panic too
	for _, t := range tokens {
		m, _, err := txn{tx, b.write, b.incarnation}.mark(t.Resource)
		if err != nil {
			return fencing.AsFailed(stopped(ctx, err))
		}
		if err := m.Check(t, fencing.Strict); err != nil {
			return err
		}
	}
	if err := fn(tx); err != nil {
		return fencing.AsFailed(err)
	}
	err = tx.Commit()
	switch {
	case err == nil:
		return nil
	case errors.Is(err, sql.ErrTxDone) && ctx.Err() == nil:
		return fencing.AsUnknown(errors.New("fn ended the transaction itself, it may have been committed"))
	case errors.Is(err, sql.ErrTxDone), ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return fencing.AsFailed(ctx.Err()) // rolled back, COMMIT was never sent
	}
	return committed(err)
}

// stopped prefers the context's end to what it looks like in a transaction.
func stopped(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// admit validates the tokens and sorts them by resource.
func admit(tokens []fencing.Token) ([]fencing.Token, error) {
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
	return tokens, nil
}
