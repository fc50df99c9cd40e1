package pglock

import (
	"context"
	"maps"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/pgtx"
	"github.com/fencegate/fencegate/locking"
)

// rowHold is a hold of this process: a transaction that has the row locked.
type rowHold struct {
	conn   *pgxpool.Conn
	holder string        // its transaction
	turn   chan struct{} // full while somebody works on what follows, or on the connection

	token   fencing.Token // its resource and grant never change
	expires time.Time
	timer   *time.Timer // for expires; nil until the hold has begun
	ended   bool
}

// newRowHold returns a hold whose turn is the caller's.
func newRowHold(conn *pgxpool.Conn, t fencing.Token, holder string) *rowHold {
	h := &rowHold{conn: conn, holder: holder, turn: make(chan struct{}, 1), token: t}
	h.turn <- struct{}{}
	return h
}

// enter waits for the turn, or for ctx to end.
func (h *rowHold) enter(ctx context.Context) error {
	select {
	case h.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fencing.AsFailed(ctx.Err())
	}
}

func (h *rowHold) leave() { <-h.turn }

// grace is how much longer than a hold lasts the server waits to hear of its session: it is for
// a process that stands still, and the others end their holds and keep their connections.
const grace = 250 * time.Millisecond

// touch has the server end the session only when it has not heard of it for d and grace.
func (h *rowHold) touch(ctx context.Context, d time.Duration) error {
	_, err := h.conn.Exec(ctx, rowTouchSQL, milliseconds(d+grace))
	return pgtx.Scrub(err)
}

// find returns the hold of a grant, nil if this process has none.
func (b *RowLocks) find(resource, grant string) *rowHold {
	b.mu.Lock()
	defer b.mu.Unlock()
	if h := b.holds[resource]; h != nil && h.token.Grant == grant {
		return h
	}
	return nil
}

// alive ends h if its time is up. The caller has its turn.
func (b *RowLocks) alive(h *rowHold) bool {
	if !h.ended && !time.Now().Before(h.expires) {
		_ = b.end(h)
	}
	return !h.ended
}

// keep asks h's connection whether it lives, and lets h last for at least ttl from now. The caller
// has its turn. ctx does not cut it short: a statement that is cut short costs the connection, and
// the hold with it.
func (b *RowLocks) keep(ctx context.Context, h *rowHold, ttl time.Duration) error {
	if !b.alive(h) {
		return locking.ErrLost
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), b.timeout)
	defer cancel()
	at := time.Now()
	until := h.expires
	if u := at.Add(ttl); u.After(until) {
		until = u
	}
	err := h.touch(ctx, until.Sub(at))
	h.expires = until // also where it failed: the server may have heard it
	if err != nil {
		_ = b.end(h)
		return locking.ErrLost
	}
	h.timer.Reset(time.Until(until))
	return nil
}

// end ends h, once, and gives its connection back. The caller has its turn. An error says that
// the connection does not answer: it is closed then, and the server frees the lock when it
// notices, or has not heard of it for long enough; until then the grant is remembered.
func (b *RowLocks) end(h *rowHold) error {
	if h.ended {
		return nil
	}
	h.ended = true
	if h.timer != nil {
		h.timer.Stop()
	}
	b.mu.Lock()
	if b.holds[h.token.Resource] == h {
		delete(b.holds, h.token.Resource)
	}
	b.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	_, err := h.conn.Exec(ctx, "rollback")
	if err != nil {
		b.remember(h)
		_ = h.conn.Conn().Close(ctx) // or else the pool would look at it again
	}
	h.conn.Release()
	return err
}

// remember notes a hold that has ended here and maybe not at the server, for as long as that may
// let it last: its grant would find it there as if it were another process's.
func (b *RowLocks) remember(h *rowHold) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(b.ended, func(_ fencing.Token, until time.Time) bool { return until.Before(now) })
	until := now.Add(locking.PushTTL) // of one that has not begun
	if h.expires.After(until) {
		until = h.expires
	}
	b.ended[fencing.Token{Resource: h.token.Resource, Grant: h.token.Grant}] = until.Add(grace + b.timeout)
}

// endedHere reports whether a hold of the grant is remembered.
func (b *RowLocks) endedHere(resource, grant string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, ended := b.ended[fencing.Token{Resource: resource, Grant: grant}]
	return ended
}

// expire is called when h's time is up, if it was not renewed.
func (b *RowLocks) expire(h *rowHold) {
	h.turn <- struct{}{}
	defer h.leave()
	if left := time.Until(h.expires); left > 0 && !h.ended {
		h.timer.Reset(left)
		return
	}
	_ = b.end(h)
}

// drop ends a hold that the server has ended already.
func (b *RowLocks) drop(h *rowHold) {
	h.turn <- struct{}{}
	defer h.leave()
	_ = b.end(h)
}

// Renew implements locking.Backend: one call for what others see of the holds, and one on each
// hold's own connection, side by side.
func (b *RowLocks) Renew(ctx context.Context, ttl time.Duration, held []fencing.Token) []error {
	verdicts := make([]error, len(held))
	if err := locking.ValidateTTL(ttl); err != nil {
		return fill(verdicts, nil, err)
	}
	if len(held) == 0 {
		return verdicts
	}
	holds := make([]*rowHold, len(held))
	own := make([]bool, len(held))
	var resources, grants []string
	var numbers []int64
	for i, t := range held {
		holds[i] = b.find(t.Resource, t.Grant)
		own[i] = holds[i] != nil
		resources, grants, numbers = append(resources, t.Resource), append(grants, t.Grant), append(numbers, t.Number)
	}
	err := b.call(ctx, func(rows pgx.Rows) error {
		var i int
		var verdict string
		_, err := pgx.ForEachRow(rows, []any{&i, &verdict}, func() error {
			if verdict != "held" {
				verdicts[i-1] = locking.ErrLost
			}
			return nil
		})
		return err
	}, rowRenewSQL, resources, numbers, grants, own, ttl.Milliseconds())
	if err != nil {
		return fill(verdicts, nil, err)
	}
	type answer struct {
		i   int
		err error
	}
	answers := make(chan answer, len(held)) // so that nobody is left behind
	asked := map[int]bool{}
	for i, h := range holds {
		switch {
		case h != nil:
			asked[i] = true
			verdict := verdicts[i]
			go func() { answers <- answer{i, b.renewOne(ctx, ttl, h, held[i].Number, verdict)} }()
		case verdicts[i] == nil:
			verdicts[i] = fencing.AsFailed(errElsewhere)
		}
	}
	for len(asked) > 0 {
		select {
		case a := <-answers:
			verdicts[a.i] = a.err
			delete(asked, a.i)
		case <-ctx.Done():
			for i := range asked {
				verdicts[i] = fencing.AsUnknown(ctx.Err())
			}
			return verdicts
		}
	}
	return verdicts
}

// renewOne renews a hold of this process, or ends what is left of one that the server says is
// lost.
func (b *RowLocks) renewOne(ctx context.Context, ttl time.Duration, h *rowHold, number int64, verdict error) error {
	if err := h.enter(ctx); err != nil {
		return err
	}
	defer h.leave()
	if verdict == nil {
		return b.keep(ctx, h, ttl)
	}
	if h.token.Number == number {
		_ = b.end(h)
	}
	return verdict
}

// Release implements locking.Backend.
func (b *RowLocks) Release(ctx context.Context, t fencing.Token) (freed bool, err error) {
	h := b.find(t.Resource, t.Grant)
	if h == nil {
		return b.endElsewhere(ctx, t.Resource, t.Number, t.Grant)
	}
	if err := h.enter(ctx); err != nil {
		return false, err
	}
	defer h.leave()
	if !b.alive(h) || h.token.Number != t.Number {
		return false, nil
	}
	if b.end(h) != nil {
		return b.endElsewhere(ctx, t.Resource, t.Number, t.Grant)
	}
	return true, nil
}

// Evict implements locking.Backend. Where the hold is another process's, the server ends the
// session whose transaction has the row.
func (b *RowLocks) Evict(ctx context.Context, resource string, number int64) error {
	b.mu.Lock()
	h := b.holds[resource]
	b.mu.Unlock()
	if h != nil {
		if err := h.enter(ctx); err != nil {
			return err
		}
		defer h.leave()
		if h.token.Number == number && b.end(h) == nil {
			return nil
		}
	}
	_, err := b.endElsewhere(ctx, resource, number, "")
	return err
}

func (b *RowLocks) endElsewhere(ctx context.Context, resource string, number int64, grant string) (ended bool, err error) {
	err = b.row(ctx, []any{&ended}, rowEndSQL, resource, number, grant)
	return ended && err == nil, err
}
