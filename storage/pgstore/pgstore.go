// Package pgstore is a storage backend on PostgreSQL, and the fence in front of your own
// tables in the same database ([Backend.Update]).
//
// # Guarantees
//
// Those of package storage, as long as the server keeps what it acknowledged.
//
//   - The check locks the row of the mark (FOR NO KEY UPDATE) and holds it until the
//     commit ends: one fenced transaction per resource at a time, and a raise waits for
//     those that are in flight. What the commit is judged by is read after that wait.
//   - Every fenced transaction runs at READ COMMITTED and with synchronous_commit on (or
//     remote_apply, which is more), whatever the role or the database has as a default.
//   - A mark is of one run of one server (its start and its timeline): after a restart or
//     a failover, every token that was granted before is refused.
//
// # What is not guaranteed
//
// A server that lies about durability (fsync=off, a disk that forgets) loses what it
// acknowledged; [Backend.Warnings] tells of the settings. A dump that is loaded into a running
// database, or a row edited by hand, shows no new incarnation: evict all marks then.
// Whoever may log in as the owner of the schema is not fenced.
//
// A fenced transaction holds raises, retirements and evictions of its resource off. The
// server ends one that sits idle for Options.MaxIdle. One that is busy for longer than that
// (its client may have stopped in the middle of an answer, which the server does not call
// idle) is ended by whoever waits for it to raise, retire or evict: only the backend that
// holds the mark, only if it does not wait for another lock itself, and only if the owner of
// the schema may end it (a superuser, a member of the backend's role or of
// pg_signal_backend). It is looked for on a second connection of the pool, and is not found
// while there is none. What is not ended, a prepared transaction too, is named in the error
// once the wait is over.
//
// Grant ids are secrets, and are sent as parameters of statements. A server that logs
// parameters (log_parameter_max_length, -1 by default, with log_min_duration_statement,
// log_statement or a sample) writes them to its log; Warnings tells. Only a superuser can
// switch it off.
//
// # Clocks
//
// None decides. Timeouts are the server's and the context's.
//
// # Errors
//
// Those of package storage. Everything that happened before COMMIT was sent is failed:
// deadlocks and serialization failures that did not go away, no connection, a refused
// one, a context that ended. When the answer to COMMIT is lost, the outcome is unknown,
// also when the context ended then, or when a pooler in between says that it lost the
// server. With synchronous standbys, a COMMIT that came back
// before its standby had it is unknown too; for that the pool must have been made from a
// configuration that [Configure] prepared. [ErrSchema] and [ErrStandby] come from [New].
//
// # Idempotency
//
// A commit with a key, and [Backend.UpdateOnce], lock the marks of their resources, whether or
// not their tokens are the marks; then, in another statement, they look for the key's record;
// then the fence is judged. So nobody is told "refused" of what was applied, or is about to be:
// a second send waits for the first one. What was answered is written in the same transaction;
// of what the data refused, that is all it writes. A record is kept for Options.KeyRetention,
// and for as long as its token is the mark. Each commit that writes one removes up to four of
// its resource that are overdue; [Backend.Sweep] removes those of resources that are no longer
// used.
//
// # Group commit
//
// Commits that come while another one of this Backend is on its way to the disk gather, and are
// carried out together, as one transaction of up to 256, each judged by what those before it
// left, and each with its own answer. One that comes alone is carried out at once, on its
// caller's goroutine. So a process should have one Backend for a database, and not several.
//
//   - A batch waits for no mark. A commit whose mark somebody else has locked leaves it: those of
//     one resource wait in a line, of which only the first has a connection, and are carried out
//     together when it has the mark; one of several resources tries again for a few
//     milliseconds, then waits by itself. Commits that wait take half of the pool's
//     connections at most, of a pool of one all: give it two or more. A commit of more than 256 KiB always goes by itself.
//   - A batch that comes to nothing is carried out again one by one, so what the server refuses of
//     one commit is not its neighbours' loss.
//   - A batch belongs to no caller: it may wait 10 s for a connection, and take 10 s. A caller whose
//     context ends is told that its commit failed if it was still in line, and else that the
//     outcome is unknown. If the answer to COMMIT is lost, it is unknown for all that wrote.
//   - Marks are always locked in the order of their names, or without waiting: commits of several
//     processes do not lock each other up.
//
// # Round trips
//
// With statements prepared, which pgx does by itself: a commit of one [storage.Put] or
// [storage.Add] without a key takes one, as a statement that checks the mark, locks it and writes
// (two where the record is new; and up to three more where the statement finds that it cannot
// be, to find out why). Any other commit, and a batch, takes two (begin, lock and read; write and
// commit), Update two beside its own statements, all else one. Where the session's default is not
// READ COMMITTED, or read-only, no commit is one statement.
package pgstore

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/lane"
	"github.com/fencegate/fencegate/internal/pgtx"
	"github.com/fencegate/fencegate/storage"
)

// schemaVersion is the oldest version of the schema that has all that this package uses.
const schemaVersion = 6

// Options tunes a [Backend]. Nil and the zero value mean the defaults.
type Options struct {
	// RaiseTimeout is how long a raise, a retirement or an eviction waits for the fenced
	// transactions in flight when its context has no deadline, in whole milliseconds.
	// Default: 10 s.
	RaiseTimeout time.Duration
	// MaxIdle is how long a fenced transaction may sit idle between two statements before
	// the server ends it, in whole milliseconds: a client that stopped in the middle must
	// not keep raises out for ever. One that is busy may go on for longer, but not if a
	// raise, a retirement or an eviction has seen it hold the mark for this long.
	// Default: 5 s.
	MaxIdle time.Duration
	// KeyRetention is how long the answer to a commit with an idempotency key is kept at
	// least, in whole milliseconds up to 366 days; it is kept for longer while the token of
	// then is the mark. All that write to one database should have the same. Default: 24 h.
	KeyRetention time.Duration
	// OnBatch is told how many commits are in each transaction that is tried, single statements
	// too. It is called synchronously and concurrently. Default: nobody.
	OnBatch func(n int)
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
// a hook notes the warning, and the outcome becomes unknown instead of applied. Hooks that
// are set already go on working. Without synchronous standbys it is not needed.
//
// pglock.Configure does the same: for a pool that both use, either is enough, and both
// are harmless.
func Configure(c *pgxpool.Config) { pgtx.Configure(c) }

// Backend is a storage.Backend in a PostgreSQL database. It is safe for concurrent use,
// leaves no goroutine behind, and leaves the pool to whoever opened it.
type Backend struct {
	pool *pgxpool.Pool
	o    Options

	direct bool // sessions begin so that a commit can be a statement of its own
	lane   *lane.Lane[storage.Commit, verdict]
	lines  lines
	slow   chan struct{} // those who wait for a mark in the server, each with a connection

	mu   sync.Mutex          // guards seen
	seen map[string]sighting // by resource: who was in the way of a raise
}

var _ storage.Backend = (*Backend)(nil)

// New returns a backend on a pool, after a look at the database: [ErrStandby], or
// [ErrSchema] if "fencegate migrate up" has not been run. The role of the pool needs what
// the role fencegate_gateway has. A pool whose default is the simple protocol is refused:
// it would put grant ids, which are secrets, into the text of statements.
func New(ctx context.Context, pool *pgxpool.Pool, o *Options) (*Backend, error) {
	opt := Options{}
	if o != nil {
		opt = *o
	}
	if opt.RaiseTimeout == 0 {
		opt.RaiseTimeout = 10 * time.Second
	}
	if opt.MaxIdle == 0 {
		opt.MaxIdle = 5 * time.Second
	}
	if opt.KeyRetention == 0 {
		opt.KeyRetention = 24 * time.Hour
	}
	if d := opt.KeyRetention; d < time.Millisecond || d > 366*24*time.Hour || d%time.Millisecond != 0 {
		return nil, &fencing.InvalidError{What: "KeyRetention", Got: d.String(), Allowed: "1ms to 8784h, in whole milliseconds"}
	}
	for what, d := range map[string]time.Duration{"RaiseTimeout": opt.RaiseTimeout, "MaxIdle": opt.MaxIdle} {
		if d < time.Millisecond || d > 24*time.Hour || d%time.Millisecond != 0 {
			return nil, &fencing.InvalidError{What: what, Got: d.String(), Allowed: "1ms to 24h, in whole milliseconds"}
		}
	}
	if err := pgtx.Check(ctx, pool, schemaVersion); err != nil {
		return nil, err
	}
	if opt.OnBatch == nil {
		opt.OnBatch = func(int) {}
	}
	b := &Backend{pool: pool, o: opt, slow: make(chan struct{}, max(1, pool.Config().MaxConns/2)), seen: map[string]sighting{}}
	if err := pool.QueryRow(ctx, directSQL).Scan(&b.direct); err != nil {
		return nil, fencing.AsFailed(fmt.Errorf("look at the session's defaults: %w", err))
	}
	b.lane = lane.New(laneMost, b.runLane, gone)
	b.lines = lines{b: b, of: map[string]*line{}}
	return b, nil
}
