package sqlitestore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/storage"
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
	_, err := b.enter(ctx, "", fn, tokens)
	return err
}

// UpdateOnce is [Backend.Update] under an idempotency key, as in [storage.Commit]: while the record
// of the key is kept, fn is committed at most once, and replayed is true where that was before. Then
// fn is not run, whatever has become of the tokens. So an unknown outcome is settled by calling it
// again, with the same tokens or later ones of the same resources.
//
// The store cannot know what fn does: that it is the same under one key is the caller's promise. A
// key that was used for other resources, or for a commit, is refused with [storage.ErrKeyReused].
// An fn that fails, whatever its reason, leaves no record.
func (b *Backend) UpdateOnce(
	ctx context.Context, key string, fn func(*sql.Tx) error, tokens ...fencing.Token,
) (replayed bool, err error) {
	if err := fencing.ValidateKey(key); err != nil {
		return false, fmt.Errorf("idempotency key: %w", err)
	}
	return b.enter(ctx, key, fn, tokens)
}

func (b *Backend) enter(ctx context.Context, key string, fn func(*sql.Tx) error, tokens []fencing.Token) (replayed bool, err error) {
	tokens, err = admit(tokens)
	if err != nil {
		return false, err
	}
	end, err := b.begin()
	if err != nil {
		return false, err
	}
	defer end()
	tx, rollback, err := b.beginUpdate(ctx)
	if err != nil {
		return false, fencing.AsFailed(fmt.Errorf("begin: %w", stopped(ctx, err)))
	}
	defer rollback() // for every way out that did not commit, a panic too
	c := storage.Commit{Tokens: tokens, Key: key}
	answer, replayed, err := b.judge(ctx, tx, c)
	if err != nil || replayed {
		return replayed, err
	}
	err = fn(tx)
	if err == nil && answer != nil {
		err = b.keep(ctx, tx, c, *answer)
	}
	if err == nil {
		if err = tx.Commit(); !errors.Is(err, sql.ErrTxDone) {
			return false, committed("commit", err)
		}
		err = ctx.Err() // nil if it was fn that ended the transaction
	}
	if rollback() {
		return false, fencing.AsFailed(err)
	}
	return false, fencing.AsPartial(errors.Join(errors.New("fn ended the transaction itself, it may have been committed"), err))
}

// judge looks at the key's record and then at the marks. answer is the record to keep; nil without a
// key.
func (b *Backend) judge(ctx context.Context, tx *sql.Tx, c storage.Commit) (answer *storage.Answer, replayed bool, err error) {
	v := storage.View{Marks: map[string]fencing.Mark{}}
	for _, t := range c.Tokens {
		var m fencing.Mark
		var base int64
		err := tx.StmtContext(noContext, b.update.mark).QueryRowContext(noContext, t.Resource, b.incarnation). //nolint:sqlclosecheck // tx does
															Scan(&m.Number, &m.Grant, &m.Retired, &base)
		if err != nil {
			return nil, false, fencing.AsFailed(stopped(ctx, err))
		}
		v.Marks[t.Resource] = tidy(m)
		if t.Grant == "" {
			return nil, false, m.Check(t, fencing.Strict)
		}
	}
	if id, ok := c.KeyID(); ok {
		found := tx.StmtContext(noContext, b.update.answer).QueryRowContext(noContext, id.Resource, id.Key) //nolint:sqlclosecheck // tx does
		if v.Answer, err = scanAnswer(found); errors.Is(err, sql.ErrNoRows) {
			v.Answer, err = nil, nil
		}
		if err != nil {
			return nil, false, fencing.AsFailed(stopped(ctx, err))
		}
	}
	res, ch, err := storage.Evaluate(c, v)
	return ch.Answer, res.Replayed, err
}

// keep writes the key's record, behind what fn wrote, and removes some that are overdue.
func (b *Backend) keep(ctx context.Context, tx *sql.Tx, c storage.Commit, a storage.Answer) error {
	id, _ := c.KeyID()
	now := time.Now()
	_, err := tx.StmtContext(noContext, b.update.setAnswer). //nolint:sqlclosecheck // tx does
									ExecContext(noContext, id.Resource, id.Key, a.Fingerprint[:], a.Number, a.Text(), now.UnixMilli())
	if err == nil {
		_, err = tx.StmtContext(noContext, b.update.removeAnswers). //nolint:sqlclosecheck // the same
										ExecContext(noContext, id.Resource, now.Add(-b.retention).UnixMilli(), a.Number, removeStep)
	}
	if err != nil {
		return fmt.Errorf("keep the idempotency key: %w", stopped(ctx, err))
	}
	return nil
}

// beginUpdate begins a transaction, waiting for its turn, and rolls it back when ctx
// ends. rollback does so now, if it is not ended, and reports whether it was this, or the end
// of ctx, that ended the transaction: where it was not, fn has committed it or may have.
// So the transaction is not bound to ctx itself: database/sql would not tell. In the end, rollback
// must be called.
func (b *Backend) beginUpdate(ctx context.Context) (tx *sql.Tx, rollback func() bool, err error) {
	select {
	case b.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	passOn := sync.OnceFunc(b.passOn)
	bound, unbind := context.WithCancel(context.WithoutCancel(ctx))
	stopWaiting := context.AfterFunc(ctx, unbind)
	if tx, err = b.updates.BeginTx(bound, nil); err != nil {
		stopWaiting()
		unbind()
		passOn()
		return nil, nil, err
	}
	if !stopWaiting() { // ctx ended, and the transaction with it: nobody has seen it
		_ = tx.Rollback()
		passOn()
		return nil, nil, ctx.Err()
	}
	rolledBack := make(chan bool, 1)
	stop := context.AfterFunc(ctx, func() {
		did := ours(tx.Rollback())
		if did {
			passOn() // fn may not come back for long
		} // else a COMMIT may be on its way, which nobody may disturb
		rolledBack <- did
	})
	return tx, sync.OnceValue(func() bool {
		defer unbind()
		defer passOn()
		if !stop() {
			return <-rolledBack
		}
		return ours(tx.Rollback())
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
