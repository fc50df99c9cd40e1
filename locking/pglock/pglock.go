// Package pglock is a lock store on PostgreSQL: a row per resource that was ever locked,
// with the last number, the last grant and when its hold expires.
//
// # Guarantees
//
// Those of locking.Backend, as long as the server keeps what it acknowledged.
//
//   - A number is told after its COMMIT, with synchronous_commit on, so that no crash brings
//     it back. It is above the last number, the request's floor, and the mark that the
//     resource has in the same database: a counter that went back is healed from there.
//   - Each call is one transaction at READ COMMITTED, whatever the default, in one round
//     trip. The row is locked first; whether its hold has expired is judged after that.
//   - Looking for a lock that somebody holds locks nothing: those who wait do not get into
//     the way of the holder's renewal.
//
// # What is not guaranteed
//
// Order among those who wait: whoever looks first after the end of a hold has the lock. A row
// that another call is at work on is waited for only for some milliseconds; then an
// acquire says held, with nothing remaining, and a renewal has failed: neither is a loss.
//
// Grant ids are secrets, and are sent as parameters of statements: a server that logs
// parameters (log_parameter_max_length is not 0) writes them to its log.
//
// # Clocks
//
// The database's clock_timestamp() only. If that clock jumps forward, holds end early, and
// the fence has to do its work. If it jumps back, no hold lasts longer than its TTL from
// the moment somebody else asks for it.
//
// # Errors
//
// Those of locking.Backend. What came before COMMIT is failed; a lost answer to COMMIT is
// unknown, also where a pooler in between says that it lost the server. So is one that came
// back before its synchronous standby had it, for which the pool must have been made from a
// configuration that [Configure] prepared. [ErrSchema] and [ErrStandby] come from [New].
package pglock

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/pgtx"
	"github.com/fencegate/fencegate/locking"
)

// schemaVersion is the oldest version of the schema that has all that this package uses.
const schemaVersion = 3

// Options tunes a [Backend]. Nil and the zero value mean the defaults.
type Options struct {
	// Timeout bounds a call whose context has no deadline, and its wait for another call
	// that is at work on the same row, in whole milliseconds. Default: 10 s.
	Timeout time.Duration
}

// The errors of [New].
var (
	// ErrSchema says that the database lacks the schema, or has an older one.
	ErrSchema = pgtx.ErrSchema
	// ErrStandby says that the server is a standby, which can store nothing.
	ErrStandby = pgtx.ErrStandby
)

// Configure prepares a pool's configuration for servers with synchronous standbys. When the
// wait for a standby is cancelled, the server answers COMMIT with success and a warning;
// a hook notes the warning, and the outcome becomes unknown instead of a grant that a
// failover forgets. Hooks that are set already go on working.
//
// pgstore.Configure does the same: for a pool that both use, either is enough, and both
// are harmless.
func Configure(c *pgxpool.Config) { pgtx.Configure(c) }

// Backend is a locking.Backend in a PostgreSQL database. It is safe for concurrent use,
// starts no goroutine, and leaves the pool to whoever opened it.
type Backend struct {
	pool *pgxpool.Pool
	o    Options
}

var _ locking.Backend = (*Backend)(nil)

// New returns a backend on a pool, after a look at the database: [ErrStandby], or
// [ErrSchema] if "fencegate migrate up" has not been run. The role of the pool needs what
// the role fencegate_gateway has, and no right on the table of locks itself. A pool whose
// default is the simple protocol is refused: it would put grant ids, which are secrets,
// into the text of statements.
func New(ctx context.Context, pool *pgxpool.Pool, o *Options) (*Backend, error) {
	opt := Options{}
	if o != nil {
		opt = *o
	}
	if opt.Timeout == 0 {
		opt.Timeout = 10 * time.Second
	}
	if d := opt.Timeout; d < time.Millisecond || d > time.Hour || d%time.Millisecond != 0 {
		return nil, &fencing.InvalidError{What: "Timeout", Got: d.String(), Allowed: "1ms to 1h, in whole milliseconds"}
	}
	if err := pgtx.Check(ctx, pool, schemaVersion); err != nil {
		return nil, err
	}
	return &Backend{pool: pool, o: opt}, nil
}

// looks is how often a row is looked at that another call is at work on. Such a call takes
// about as long as a pause: when the looks are used up, something hangs.
const looks = 8

// pause waits some milliseconds; false if the context ends first.
func pause(ctx context.Context) bool {
	return pgtx.Pause(ctx, time.Millisecond+rand.N(5*time.Millisecond))
}

func fromMS(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }
