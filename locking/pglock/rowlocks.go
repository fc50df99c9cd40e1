package pglock

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/pgtx"
	"github.com/fencegate/fencegate/locking"
)

// rowSchemaVersion is the oldest version of the schema that has all that RowLocks uses.
const rowSchemaVersion = 5

// RowMaxStall is what [RowLocks.MaxStall] returns, 3 s. The session of a waiter that stands
// still may come by the lock within locking.LookEvery: that bounds its whole statement, however
// many locks of the server's line it waits for. The server ends the session locking.PushTTL
// later at the latest, and the line of all others that stand still is over by then.
const RowMaxStall = locking.PushTTL + locking.LookEvery

// RowOptions tunes [RowLocks]. Nil and the zero value mean the defaults.
type RowOptions struct {
	// Timeout bounds a call whose context has no deadline, and what is asked of a holder's
	// connection, in whole milliseconds. Default: 10 s.
	Timeout time.Duration
}

// RowLocks is the second mode of this package: a lock is a row that a transaction has locked,
// with SELECT ... FOR UPDATE, and a hold is that transaction, on a connection of its own. When
// the connection drops, because the process was killed, the server frees the lock at once, and
// nobody waits for a TTL. It is safe for concurrent use.
//
// # Guarantees
//
// Those of locking.Backend, as long as the server keeps what it acknowledged.
//
//   - A number is drawn from another row, in a transaction of another connection, and
//     committed while the lock is held: the order of numbers is the order of grants, and no
//     rollback and no crash takes one back. One that comes late, when its holder has lost
//     the lock, is not drawn. It is above the last number, the request's floor, and the mark
//     that the resource has in the same database.
//   - A hold ends when its TTL is over without a renewal, on this process' monotonic clock. The
//     server ends the session when it has not heard of it for a quarter of a second longer: a
//     process that stands still loses its locks, too. Where the two cannot reach each other,
//     that is also when others get a lock that was released or given up here before.
//   - Renewing asks the hold's connection: one that has dropped is ErrLost, and not found out
//     at the next commit.
//   - It is never the caller's own transaction, which an early COMMIT would end. The caller has
//     no access to it.
//
// # What is not guaranteed
//
// A hold belongs to the process that took it. Elsewhere its grant finds it, but its renewal
// fails; its release and eviction end the session. If the hold ends by itself in that moment, its
// connection may be ended just after, when the pool has it again or another hold does, which
// is lost then.
//
// Requests that wait do so in the server's line, in the order in which they came, for a second
// at a time; who is in line when the lock is freed has it. Each needs a connection meanwhile.
//
// # Cost
//
// Three round trips a grant, one a release, two a renewal, and one connection a hold. A hold
// is an open transaction: what was deleted or changed in the database while it lasts
// cannot be vacuumed. For holds of minutes, or many of them, [Backend] is the better one.
//
// # Clocks
//
// TTLs are counted by this process and by the server, each for itself. Jumps of either's
// clock move nothing.
//
// # Errors
//
// Those of locking.Backend. When no connection is free for as long as the call may last, it
// has failed; so has one that got a lock and no number for it, and the lock is free again.
type RowLocks struct {
	caller
	holders *pgxpool.Pool

	mu     sync.Mutex          // guards what follows; nothing blocks under it
	holds  map[string]*rowHold // of this process, by resource
	closed bool
	ended  map[fencing.Token]time.Time // resource and grant of holds that may outlast their end here, and until when
}

var (
	_ locking.Waiter  = (*RowLocks)(nil)
	_ locking.Checker = (*RowLocks)(nil)
)

// NewRowLocks returns a backend that takes the connections of its holds, and of the requests
// that wait, from holders, and does everything else on pool. They go to one database, and
// must not be the same: holds could take all connections, and none were left for their
// numbers. holders bounds how many locks this process can hold. It should not go through a
// pooler, which may outlive this process. Roles and errors are those of [New]; to end holds of
// other processes, the schema's owner must be allowed to end their sessions.
//
// Before holders is closed, which waits for its connections, [RowLocks.Close] has to be called.
func NewRowLocks(ctx context.Context, pool, holders *pgxpool.Pool, o *RowOptions) (*RowLocks, error) {
	opt := RowOptions{}
	if o != nil {
		opt = *o
	}
	timeout, err := timeout(opt.Timeout)
	if err != nil {
		return nil, err
	}
	for _, p := range []*pgxpool.Pool{pool, holders} {
		if err := pgtx.Check(ctx, p, rowSchemaVersion); err != nil {
			return nil, err
		}
	}
	if pool == holders {
		return nil, &fencing.InvalidError{What: "pool of the holders", Allowed: "one of its own"}
	}
	return &RowLocks{caller: caller{pool, timeout}, holders: holders, holds: map[string]*rowHold{}, ended: map[fencing.Token]time.Time{}}, nil
}

// Close ends all holds of this process and lets no new ones begin. The pools stay. The error
// says that ctx ended first.
func (b *RowLocks) Close(ctx context.Context) error {
	b.mu.Lock()
	b.closed = true
	var holds []*rowHold
	for _, h := range b.holds {
		holds = append(holds, h)
	}
	b.mu.Unlock()
	for _, h := range holds {
		if err := h.enter(ctx); err != nil {
			return err
		}
		_ = b.end(h) // where the server does not answer, it frees the lock by itself
		h.leave()
	}
	return nil
}

// MaxStall implements locking.Waiter.
func (*RowLocks) MaxStall() time.Duration { return RowMaxStall }

// Warnings implements locking.Checker.
func (b *RowLocks) Warnings(ctx context.Context) ([]string, error) { return warnings(ctx, b.pool) }
