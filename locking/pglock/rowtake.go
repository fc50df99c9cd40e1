package pglock

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/pgtx"
	"github.com/fencegate/fencegate/locking"
)

var (
	errGone      = errors.New("the holder's connection was lost, or its pool goes to another database")
	errElsewhere = errors.New("another process has the connection of this hold")
	errEnded     = errors.New("these row locks were closed")
)

// TryAcquire implements locking.Backend. It does not wait for the row.
func (b *RowLocks) TryAcquire(ctx context.Context, r locking.Request) (locking.Hold, error) {
	return b.attempt(ctx, r, false)
}

// Join implements locking.Waiter, without a line of our own: the attempt itself waits in the
// server's line, for locking.LookEvery at most. If that was not enough wake is called before it
// returns, and at no other time: whoever asks again at once is soonest back in line.
func (b *RowLocks) Join(ctx context.Context, r locking.Request, wake func()) (locking.Hold, error) {
	hold, err := b.attempt(ctx, r, true)
	if errors.Is(err, locking.ErrHeld) && wake != nil {
		wake()
	}
	return hold, err
}

// Leave implements locking.Waiter. Between two calls nobody is in line, and so there is
// nothing to do.
func (*RowLocks) Leave(context.Context, locking.Request) error { return nil }

func (b *RowLocks) attempt(ctx context.Context, r locking.Request, wait bool) (locking.Hold, error) {
	if err := r.Validate(); err != nil {
		return locking.Hold{}, err
	}
	ctx, limit, cancel := pgtx.Deadline(ctx, b.timeout, b.timeout+b.timeout/10)
	defer cancel()
	if h := b.find(r.Resource, r.Grant); h != nil {
		return b.again(ctx, h, r)
	}
	if !wait {
		limit = 0
	}
	h, err := b.take(ctx, r, min(limit, locking.LookEvery))
	if err != nil {
		return locking.Hold{}, err
	}
	if h == nil {
		return b.heldBy(ctx, r)
	}
	defer h.leave()
	if err := b.start(ctx, h, r); err != nil {
		_ = b.end(h)
		return locking.Hold{}, err
	}
	return locking.Hold{Token: h.token, Drawn: true, Remaining: r.TTL}, nil
}

// take locks the row, on a connection that it keeps, and returns with the hold's turn; nil if
// the row is locked.
func (b *RowLocks) take(ctx context.Context, r locking.Request, wait time.Duration) (*rowHold, error) {
	conn, err := b.holders.Acquire(ctx)
	if err != nil {
		return nil, fencing.AsFailed(err)
	}
	for range 2 {
		var verdict, holder string
		verdict, holder, err = lockRow(ctx, conn, r, wait)
		if err == nil && verdict == "taken" {
			return newRowHold(conn, fencing.Token{Resource: r.Resource, Grant: r.Grant}, holder), nil
		}
		pgtx.Rollback(ctx, conn)
		if err != nil || verdict != "absent" {
			break
		}
		// In a transaction of its own: in this one, others would wait for it until the hold ends.
		if err = b.row(ctx, []any{nil}, rowMakeSQL, r.Resource); err != nil {
			break
		}
	}
	conn.Release()
	if err != nil && (wait == 0 || !waitIsOver(err)) {
		// There was no COMMIT, and there will be none.
		return nil, fencing.AsFailed(pgtx.Scrub(err))
	}
	return nil, nil //nolint:nilnil // somebody else has it
}

// lockRow begins the transaction of a hold. Until the hold is known to be one, the server ends
// the session after as long as a lock lasts that nobody has asked for yet. wait bounds the whole
// statement: in the server's line it waits for more than one lock.
func lockRow(ctx context.Context, conn *pgxpool.Conn, r locking.Request, wait time.Duration) (verdict, holder string, err error) {
	batch := &pgx.Batch{}
	pgtx.Begin(batch, pgtx.Limits{Idle: min(r.TTL, locking.PushTTL), Wait: wait})
	patience(batch, wait)
	batch.Queue(rowTakeSQL, r.Resource, wait > 0)
	br := conn.SendBatch(ctx, batch)
	if err = pgtx.Began(br); err == nil {
		_, err = br.Exec()
	}
	if err == nil {
		err = br.QueryRow().Scan(&verdict, &holder)
	}
	if closeErr := br.Close(); err == nil {
		err = closeErr
	}
	return verdict, holder, err
}

// start draws the number of a hold whose row is locked, and makes it one. After an error the
// caller ends it, which nothing outlasts: what was drawn is no hold.
func (b *RowLocks) start(ctx context.Context, h *rowHold, r locking.Request) error {
	err := b.draw(ctx, h, r)
	if err != nil {
		return err
	}
	h.expires = time.Now().Add(r.TTL)
	if err := h.touch(ctx, r.TTL); err != nil {
		return fencing.AsFailed(errors.Join(errGone, err))
	}
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return fencing.AsFailed(errEnded)
	}
	h.timer = time.AfterFunc(time.Until(h.expires), func() { b.expire(h) })
	stale := b.holds[r.Resource]
	b.holds[r.Resource] = h
	b.mu.Unlock()
	if stale != nil { // the server has ended it: else its row could not have been locked
		go b.drop(stale)
	}
	return nil
}

// draw has a number drawn for a hold. A lost answer is asked for again: the number is there
// or is not, and was told to nobody.
func (b *RowLocks) draw(ctx context.Context, h *rowHold, r locking.Request) error {
	var verdict string
	var number int64
	call := func() error {
		return b.row(ctx, []any{&verdict, &number}, rowGrantSQL,
			r.Resource, r.Grant, r.Label, r.TTL.Milliseconds(), r.Floor, h.holder)
	}
	err := call()
	if fencing.OutcomeOf(err) == fencing.Unknown && ctx.Err() == nil {
		if again := call(); again != nil {
			err = fencing.AsUnknown(errors.Join(err, again))
		} else {
			err = nil
		}
	}
	if err != nil {
		return err
	}
	switch verdict {
	case "granted":
		h.token.Number = number
		return nil
	case "lost":
		return locking.ErrLost
	case "exhausted":
		return locking.ErrExhausted
	}
	return fencing.AsFailed(errGone)
}

// again answers a request whose grant has a hold of this process.
func (b *RowLocks) again(ctx context.Context, h *rowHold, r locking.Request) (locking.Hold, error) {
	if err := h.enter(ctx); err != nil {
		return locking.Hold{}, err
	}
	defer h.leave()
	if !b.alive(h) {
		return locking.Hold{}, locking.ErrLost
	}
	drawn := h.token.Number <= r.Floor
	if drawn {
		err := b.draw(ctx, h, r)
		if errors.Is(err, errGone) {
			_ = b.end(h)
			err = locking.ErrLost
		}
		if err != nil {
			return locking.Hold{}, err
		}
	} else if err := b.keep(ctx, h, 0); err != nil {
		return locking.Hold{}, err
	}
	return locking.Hold{Token: h.token, Drawn: drawn, Remaining: time.Until(h.expires)}, nil
}

// heldBy tells who holds a lock. Where it is the grant itself, in another process, it is its
// hold; in this one, the hold has ended and the server has not noticed.
func (b *RowLocks) heldBy(ctx context.Context, r locking.Request) (locking.Hold, error) {
	st, same, err := b.look(ctx, r.Resource, r.Grant)
	switch {
	case err != nil:
		return locking.Hold{}, err
	case !st.Held: // it has no number yet, or has just ended
		return locking.Hold{}, &locking.HeldError{Resource: r.Resource}
	case !same:
		return locking.Hold{}, &locking.HeldError{Resource: r.Resource, Number: st.Number, Label: st.Label, Remaining: st.Remaining}
	case b.endedHere(r.Resource, r.Grant):
		return locking.Hold{}, locking.ErrLost
	case st.Number <= r.Floor:
		return locking.Hold{}, fencing.AsFailed(errElsewhere)
	}
	t := fencing.Token{Resource: r.Resource, Number: st.Number, Grant: r.Grant}
	return locking.Hold{Token: t, Remaining: st.Remaining}, nil
}
