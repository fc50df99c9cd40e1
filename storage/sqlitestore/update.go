package sqlitestore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync"

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
// it carries, else as failed. Where fn has ended the transaction all the same, the outcome is
// unknown, whatever fn returned.
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
	tx, rollback, err := b.beginUpdate(ctx)
	if err != nil {
		return fencing.AsFailed(fmt.Errorf("begin: %w", stopped(ctx, err)))
	}
	defer rollback() // for every way out that did not commit, a panic too
	for _, t := range tokens {
		m, _, err := txn{tx, b.write, b.incarnation}.mark(t.Resource)
		if err != nil {
			return fencing.AsFailed(stopped(ctx, err))
		}
		if err := m.Check(t, fencing.Strict); err != nil {
			return err
		}
	}
	err = fn(tx)
	if err == nil {
		if err = tx.Commit(); !errors.Is(err, sql.ErrTxDone) {
			return committed(err)
		}
		err = ctx.Err() // nil if it was fn that ended the transaction
	}
	if rollback() {
		return fencing.AsFailed(err)
	}
	return fencing.AsPartial(errors.Join(errors.New("fn ended the transaction itself, it may have been committed"), err))
}

// beginUpdate begins a transaction, waiting for the writer, and rolls it back when ctx
// ends. rollback does so now, if it is not ended, and reports whether it was this, or the end
// of ctx, that ended the transaction: where it was not, fn has committed it or may have.
// So the transaction is not bound to ctx itself: database/sql would not tell.
func (b *Backend) beginUpdate(ctx context.Context) (tx *sql.Tx, rollback func() bool, err error) {
	bound, unbind := context.WithCancel(context.WithoutCancel(ctx))
	stopWaiting := context.AfterFunc(ctx, unbind)
	if tx, err = b.writer.BeginTx(bound, nil); err != nil {
		stopWaiting()
		unbind()
		return nil, nil, err
	}
	if !stopWaiting() { // ctx ended, and the transaction with it: nobody has seen it
		_ = tx.Rollback()
		return nil, nil, ctx.Err()
	}
	rolledBack := make(chan bool, 1)
	stop := context.AfterFunc(ctx, func() { rolledBack <- ours(tx.Rollback()) })
	return tx, sync.OnceValue(func() bool {
		defer unbind()
		if stop() {
			return ours(tx.Rollback())
		}
		return <-rolledBack
	}), nil
}

// ours reports whether a call of Rollback was what ended the transaction. Another error
// than ErrTxDone is SQLite's: it had rolled back by itself.
func ours(err error) bool { return !errors.Is(err, sql.ErrTxDone) }

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
