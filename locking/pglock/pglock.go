// Package pglock is a lock store on PostgreSQL, in two modes. [Backend] keeps leases: a row per
// resource that was ever locked, with the last number, the last grant and when its hold
// expires. No connection is held while a lock is. [RowLocks] keeps a row locked, on a connection
// of its own, and frees it when that drops: what it promises is written beside it. The
// two do not see each other's holds; a resource is locked by one of them only.
//
// # Guarantees
//
// Of [Backend]: those of locking.Backend, as long as the server keeps what it acknowledged.
//
//   - A number is told after its COMMIT, with synchronous_commit on, so that no crash brings
//     it back. It is above the last number, the request's floor, and the mark that the
//     resource has in the same database: a counter that went back is healed from there.
//
//   - Each call is one transaction at READ COMMITTED, whatever the default, in one round
//     trip. The row is locked first; whether its hold has expired is judged after that.
//
//   - Looking for a lock that somebody holds locks nothing: those who wait do not get into
//     the way of the holder's renewal.
//
//   - Those who wait stand in one line, whatever process they are of, and are served in the
//     order in which they came. Whoever finds the lock free, by releasing, evicting or
//     asking, gives it to the first of them that is alive, within the same transaction, and
//     a single attempt does not overtake. Waiters that stand still delay the others by
//     [MaxStall] at most.
//
//   - Word of it comes by NOTIFY, on one connection beside the pool, which is there from when
//     the first request had to wait until a second after the last. It names the resource and
//     nothing else. Word that is lost costs no more than locking.LookEvery. None is sent
//     while the server's queue of notifications is half full or more, which fills when some
//     session, of whatever program, listens and stays in a transaction: a full one would make
//     releases fail. [Backend.Warnings] tells it.
//
// # What is not guaranteed
//
// Places in line, across a crash of the server or a failover: they are written without a
// wait for the disk, and whoever has lost one takes a new one.
//
// A single attempt waits for a row that another call is at work on only for some
// milliseconds; then it says held, with nothing remaining. A renewal has failed then.
// Neither is a loss. A request that waits does so for up to a second, whatever
// statement_timeout and transaction_timeout its role has.
//
// Grant ids are secrets, and are sent as parameters of statements: a server that logs
// parameters (log_parameter_max_length is not 0) writes them to its log.
//
// # Poolers
//
// Every call works through a transaction pooler. LISTEN does not: it seems to succeed, and no
// word ever comes. Where the pool goes through one, [Options].Listen has to connect to the
// server itself, or [Options].NoListen be set.
//
// # Cost
//
// One round trip a call. Waiting adds one for the place in line, and one every
// locking.LookEvery, which locks nothing but the place. The server commits transactions
// with a NOTIFY one after the other, all databases together: measured on 2 cores, join,
// hand-over and claim together took as long with it as without where one lock was handed
// over at a time (up to 1.2 times as long with fsync), and 1.4 to 1.5 times as long for 8
// and 32 locks at a time. Only a hand-over to a process that listens sends one.
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

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/pgtx"
	"github.com/fencegate/fencegate/locking"
)

// schemaVersion is the oldest version of the schema that has all that this package uses.
const schemaVersion = 4

// Options tunes a [Backend]. Nil and the zero value mean the defaults.
type Options struct {
	// Timeout bounds a call whose context has no deadline, and its wait for another call
	// that is at work on the same row, in whole milliseconds. Default: 10 s.
	Timeout time.Duration

	// Listen opens the connection on which those who wait get word, one at a time; the
	// backend closes it. LISTEN does not pass a transaction pooler: where the pool goes
	// through one, this must go to the server itself, or NoListen be set. It must not have
	// an OnNotification, which would get the word in the backend's place.
	// Default: one like those of the pool, outside of it, without its OnNotification.
	Listen func(ctx context.Context) (*pgx.Conn, error)

	// NoListen says that those who wait get no word and look, every locking.LookEvery.
	// Default: false.
	NoListen bool
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

// Backend is a locking.Backend in a PostgreSQL database. It is safe for concurrent use, and
// leaves the pool to whoever opened it. Only while requests wait it has a goroutine, and a
// connection beside the pool.
type Backend struct {
	caller
	word *word
}

var (
	_ locking.Waiter      = (*Backend)(nil)
	_ locking.Transferrer = (*Backend)(nil)
	_ locking.Checker     = (*Backend)(nil)
)

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
	timeout, err := timeout(opt.Timeout)
	if err != nil {
		return nil, err
	}
	if opt.NoListen && opt.Listen != nil {
		return nil, &fencing.InvalidError{What: "Listen", Allowed: "nil, where NoListen is set"}
	}
	if err := pgtx.Check(ctx, pool, schemaVersion); err != nil {
		return nil, err
	}
	if opt.Listen == nil && !opt.NoListen {
		opt.Listen = besides(pool)
	}
	return &Backend{caller{pool, timeout}, newWord(opt.Listen)}, nil
}

// timeout checks an option, and puts the default in the place of zero.
func timeout(d time.Duration) (time.Duration, error) {
	if d == 0 {
		d = 10 * time.Second
	}
	if d < time.Millisecond || d > time.Hour || d%time.Millisecond != 0 {
		return 0, &fencing.InvalidError{What: "Timeout", Got: d.String(), Allowed: "1ms to 1h, in whole milliseconds"}
	}
	return d, nil
}

// looks is how often a row is looked at that another call is at work on. Such a call takes
// about as long as a pause: when the looks are used up, something hangs.
const looks = 8

// pause waits some milliseconds; false if the context ends first.
func pause(ctx context.Context) bool {
	return pgtx.Pause(ctx, time.Millisecond+rand.N(5*time.Millisecond))
}

func fromMS(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }
