package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/lane"
	"github.com/fencegate/fencegate/internal/sqlitefile"
	"github.com/fencegate/fencegate/migrations"
	"github.com/fencegate/fencegate/storage"
)

// Options tunes [Open]. Nil and the zero value mean the defaults.
type Options struct {
	// MaxBatch is the highest number of calls that are combined in one transaction, 1 to
	// 10,000. Default: 256.
	MaxBatch int
	// KeyRetention is how long the answer to a commit with an idempotency key is kept at least, 1 ms
	// or more. After it, and once the commit's token is not the mark any more, later commits of the
	// resource with a key remove it, and so does [Backend.Sweep]. Default: 24 h.
	KeyRetention time.Duration
	// Wait is how long Open waits for another process to give the file back, as in a
	// restart. Default: it does not wait.
	Wait time.Duration
	// OnBatch is told how many calls (commits, raises, ...) are in each transaction. It is called
	// synchronously, by one at a time. Default: nobody.
	OnBatch func(n int)
}

var (
	// ErrInUse matches the error of [Open] for a file that somebody has open.
	ErrInUse = sqlitefile.ErrInUse
	// ErrClosed matches the errors, failed ones, of a backend that was closed.
	ErrClosed = lane.ErrClosed
)

// readers is the number of connections that read.
const readers = 8

// Backend is a storage.Backend in a SQLite file. It is safe for concurrent use and owns
// the file until [Backend.Close].
type Backend struct {
	path        string
	incarnation string // of this run, random
	retention   time.Duration
	onBatch     func(n int)
	turn        chan struct{} // has something in it while somebody may write: a batch, or an Update
	lanes       *sql.DB
	writer      *conn // the one connection of lanes; used by who has the turn
	updates     *sql.DB
	update      *statements // of updates
	reader      *sql.DB
	read        *statements // of reader
	lane        *lane.Lane[job, storage.Outcome]
	batches     atomic.Int64 // transactions of the lane so far
	crowded     atomic.Bool  // the last one had several jobs

	mu     sync.Mutex // guards closed, and calls.Add against Wait
	closed bool
	calls  sync.WaitGroup // reads and Updates under way
	unlock func() error
}

var _ storage.Backend = (*Backend)(nil)

// Open opens the database file, makes it where there is none, and brings its schema up
// to date. Every error is one sentence that names the file; it matches [ErrInUse] where
// somebody else has it. ":memory:" is refused: for a store in memory there is memstore.
func Open(ctx context.Context, path string, o *Options) (*Backend, error) {
	opt := Options{}
	if o != nil {
		opt = *o
	}
	if opt.MaxBatch == 0 {
		opt.MaxBatch = 256
	}
	if opt.KeyRetention == 0 {
		opt.KeyRetention = 24 * time.Hour
	}
	switch {
	case opt.MaxBatch < 1 || opt.MaxBatch > 10000:
		return nil, &fencing.InvalidError{What: "MaxBatch", Allowed: "1 to 10000"}
	case opt.KeyRetention < time.Millisecond:
		return nil, &fencing.InvalidError{What: "KeyRetention", Got: opt.KeyRetention.String(), Allowed: "1 ms or more"}
	case opt.Wait < 0:
		return nil, &fencing.InvalidError{What: "Wait", Got: opt.Wait.String(), Allowed: "0 or more"}
	case path == ":memory:":
		return nil, &fencing.InvalidError{
			What: "database file", Got: path,
			Allowed: "the path of a file: each connection would have a memory of its own; package memstore is a store in memory",
		}
	}
	path, err := sqlitefile.Resolve(path)
	if err != nil {
		return nil, err
	}
	unlock, err := sqlitefile.Lock(ctx, path, opt.Wait)
	if err != nil {
		return nil, err
	}
	b := &Backend{path: path, incarnation: fencing.NewGrant(), retention: opt.KeyRetention, onBatch: opt.OnBatch, turn: make(chan struct{}, 1), unlock: unlock}
	b.lane = lane.New(opt.MaxBatch, b.runLane, func(err error) storage.Outcome { return storage.Outcome{Err: err} })
	if err := b.open(ctx); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// open does what needs the lock: everything that touches the file.
func (b *Backend) open(ctx context.Context) (err error) {
	if err := migrate(ctx, b.path); err != nil {
		return err
	}
	if b.lanes, err = b.openWriter(ctx); err != nil {
		return err
	}
	if b.updates, err = b.openWriter(ctx); err != nil {
		return err
	}
	if b.writer, err = connect(ctx, b.lanes); err != nil {
		return fmt.Errorf("%s: %w", b.path, err)
	}
	if b.update, err = prepare(ctx, b.updates); err != nil {
		return fmt.Errorf("%s: %w", b.path, err)
	}
	if b.reader, err = sqlitefile.Open(ctx, b.path, sqlitefile.Read); err != nil {
		return err
	}
	b.reader.SetMaxOpenConns(readers)
	b.reader.SetMaxIdleConns(readers)
	if b.read, err = prepare(ctx, b.reader); err != nil {
		return fmt.Errorf("%s: %w", b.path, err)
	}
	return nil
}

// openWriter opens a pool of one connection that writes. There are two: an Update's statements are
// ended by their contexts, after which database/sql replaces the connection; the lane's must stay.
func (b *Backend) openWriter(ctx context.Context) (*sql.DB, error) {
	db, err := sqlitefile.Open(ctx, b.path, sqlitefile.Write)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	var journal string
	var synchronous int
	if err := db.QueryRowContext(ctx, journalSQL).Scan(&journal, &synchronous); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", b.path, err), db.Close())
	}
	if journal != "wal" || synchronous != 2 {
		return nil, errors.Join(
			fmt.Errorf("%s: this file system does not do what a database needs (journal mode %s instead of wal)", b.path, journal), db.Close())
	}
	return db, nil
}

func migrate(ctx context.Context, path string) error {
	m, err := migrations.OpenLocked(path)
	if err != nil {
		return err
	}
	_, err = m.Up(ctx)
	return errors.Join(err, m.Close())
}

// Close lets the calls under way end, refuses new ones, and gives the file back. Closing
// again does nothing.
func (b *Backend) Close() error {
	b.mu.Lock()
	was := b.closed
	b.closed = true
	b.mu.Unlock()
	if was {
		return nil
	}
	b.lane.Close()
	b.calls.Wait()
	var err error
	if b.writer != nil {
		err = b.writer.Close()
	}
	for _, db := range []*sql.DB{b.reader, b.updates, b.lanes} { // a writer last: it empties the WAL
		if db != nil {
			err = errors.Join(err, db.Close())
		}
	}
	return errors.Join(err, b.unlock())
}

// begin counts a call in, so that Close waits for it; end counts it out.
func (b *Backend) begin() (end func(), err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, fencing.AsFailed(ErrClosed)
	}
	b.calls.Add(1)
	return b.calls.Done, nil
}
