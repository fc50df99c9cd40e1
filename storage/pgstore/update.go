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
	"github.com/fencegate/fencegate/storage"
)

// errManaged is what fn gets that ends its transaction.
var errManaged = errors.New("pgstore: the transaction of Update ends with its function: return nil or an error")

// Update runs fn in a transaction whose first statement is the fence: it goes on only if
// every token is the mark, and no newer token is raised before it ends. So whatever fn
// does in this transaction, in any table, is done by the holder or not at all. It commits if fn
// returns nil and rolls back if fn returns an error, panics or leaves by runtime.Goexit.
//
// Each Update has a connection of the pool, also while it waits for its marks: where many wait
// for one resource, give them a pool of their own, or a limit.
//
// The transaction is READ COMMITTED. fn must not end it ("commit and chain" would not be noticed,
// and what comes behind it is not fenced), must not use it after it has returned, and must not raise its resources; no raise is let in while it runs, so it
// should be short: bound it with ctx. See Options.MaxIdle for when it is ended from outside. Update is strict: a token
// without a grant id is refused.
//
// An error of fn comes back so that errors.Is and errors.As find it, with the outcome that
// it carries, else as failed. fn is never called twice by one Update.
func (b *Backend) Update(ctx context.Context, fn func(pgx.Tx) error, tokens ...fencing.Token) error {
	_, err := b.update(ctx, "", fn, tokens)
	return err
}

// UpdateOnce is Update under an idempotency key, which makes it safe to call again: fn's
// transaction is committed at most once under a key. It writes the key's record, and where that
// is found, fn is not called and replayed is true, whatever became of the tokens meanwhile. So
// an answer that was lost, an unknown outcome, is resolved by calling it again, with a later
// token too, until the answer is a known one.
//
// The key has the grammar of a record's key, belongs to the lowest of the resources, and is
// shared with [storage.Commit.Key]: under a key that was used for a commit, or for an update
// of other resources, the call is refused with [storage.ErrKeyReused]. What fn does cannot be
// compared. So a key must stand for one task with all its particulars, as a request's id does:
// whoever calls again with another fn is told "replayed" of the first one.
//
// Nothing is recorded of what did not happen: fn's error, a refusal by the fence. Only the
// tokens' resources are locked while fn runs, and a second call waits for the first. See
// Options.KeyRetention for how long the record is kept.
func (b *Backend) UpdateOnce(ctx context.Context, key string, fn func(pgx.Tx) error, tokens ...fencing.Token) (replayed bool, err error) {
	if err := fencing.ValidateKey(key); err != nil {
		return false, fmt.Errorf("idempotency key: %w", err)
	}
	return b.update(ctx, key, fn, tokens)
}

func (b *Backend) update(ctx context.Context, key string, fn func(pgx.Tx) error, tokens []fencing.Token) (replayed bool, err error) {
	tokens, err = b.admit(ctx, tokens)
	if err != nil {
		return false, err
	}
	conn, err := b.pool.Acquire(ctx)
	if err != nil {
		return false, fencing.AsFailed(err)
	}
	defer conn.Release()
	defer pgtx.Rollback(ctx, conn) // on every way out that did not commit, a panic too
	// A commit without operations: its fingerprint is that of no commit.
	r, out := b.begin(ctx, conn, storage.Commit{Tokens: tokens, Key: key})
	if out.Err != nil || out.Result.Replayed {
		return out.Result.Replayed, out.Err
	}
	err = fn(managedTx{r.tx})
	closed := conn.Conn().IsClosed()
	if !closed && conn.Conn().PgConn().TxStatus() == 'I' {
		// fn's error is not wrapped: errors.Is must not find in it that this was refused.
		return false, fencing.AsUnknown(fmt.Errorf("fn ended the transaction itself, it may have been committed (fn returned: %v)", err)) //nolint:errorlint // see above
	}
	if err != nil {
		return false, fencing.AsFailed(err)
	}
	if closed {
		return false, fencing.AsFailed(errors.New("the connection was lost before COMMIT"))
	}
	return false, r.commit(ctx)
}

// begin begins the transaction of an update, tried again as long as nothing but an accident kept
// it out.
func (b *Backend) begin(ctx context.Context, conn *pgxpool.Conn, c storage.Commit) (*round, storage.Outcome) {
	for n := 1; ; n++ {
		r := b.round(conn, []storage.Commit{c})
		err := r.enter(ctx, pgtx.Limits{Idle: b.o.MaxIdle}, r.tokens(), true, true)
		if err == nil {
			r.judge()
			if len(r.missing) == 0 {
				return r, r.out[0].Outcome
			}
			err = r.finish(ctx, true)[0].Err // there is nothing to write: why it is missing
			if err == nil {
				return r, r.out[0].Outcome // answered before
			}
		}
		if n == attempts || !again(err) {
			return r, storage.Outcome{Err: err}
		}
		pgtx.Rollback(ctx, conn)
		if !pause(ctx, n) {
			return r, storage.Outcome{Err: err}
		}
	}
}

// commit ends the transaction of an update.
func (r *round) commit(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fencing.AsFailed(err)
	}
	batch := &pgx.Batch{}
	r.queueFresh(batch)
	writes := batch.Len()
	batch.Queue("commit")
	pgtx.Forget(r.conn.Conn())
	br := r.conn.SendBatch(ctx, batch)
	defer br.Close()
	for range writes {
		if _, err := br.Exec(); err != nil {
			return pgtx.Before(err, true)
		}
	}
	tag, err := br.Exec()
	return pgtx.Committed(r.conn.Conn(), tag, err)
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

// managedTx keeps fn from ending the transaction by accident.
type managedTx struct{ pgx.Tx }

func (managedTx) Commit(context.Context) error   { return errManaged }
func (managedTx) Rollback(context.Context) error { return errManaged }
