package sqlitestore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"strconv"
	"testing"

	"modernc.org/sqlite"

	"github.com/fencegate/fencegate/fencing/fencingtest"
	"github.com/fencegate/fencegate/storage"
)

// Batches returns the number of transactions of the lane so far.
func (b *Backend) Batches() int64 { return b.batches.Load() }

// SetState writes a mark and the floor, past the rule.
func (b *Backend) SetState(tb testing.TB, resource string, s fencingtest.State) {
	tb.Helper()
	if s.Floor != 0 {
		b.Exec(tb, "UPDATE fencegate_meta SET floor = ?1", s.Floor)
	}
	if s.Absent {
		return
	}
	incarnation := b.incarnation
	if s.Inherited {
		incarnation = "earlier"
	}
	b.Exec(tb, setMarkSQL, resource, s.Mark.Number, s.Mark.Grant, s.Mark.Retired, incarnation)
}

// onWriter lends the lane's connection, when it is free.
func (b *Backend) onWriter(tb testing.TB, f func(dc any) error) {
	tb.Helper()
	b.turn <- struct{}{}
	defer func() { <-b.turn }()
	if err := b.writer.use(f); err != nil {
		tb.Fatal(err)
	}
}

// Exec runs a statement on the lane's connection.
func (b *Backend) Exec(tb testing.TB, query string, args ...any) {
	tb.Helper()
	b.onWriter(tb, func(dc any) error {
		_, _, err := run(dc, query, args, false)
		return err
	})
}

// OnCommit calls hook within every COMMIT; SQLite refuses it where the hook returns
// anything but 0. Nil ends that.
func (b *Backend) OnCommit(tb testing.TB, hook func() int32) {
	tb.Helper()
	register := func(c any) error {
		c.(sqlite.HookRegisterer).RegisterCommitHook(hook)
		return nil
	}
	b.onWriter(tb, register)
	conn, err := b.updates.Conn(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	defer conn.Close()
	_ = conn.Raw(register)
}

// BreakBegin lets every BEGIN of the lane fail with an error, until mend.
func (b *Backend) BreakBegin(tb testing.TB, err error) (mend func()) {
	tb.Helper()
	swap := func(s *statement) (was *statement) {
		b.onWriter(tb, func(any) error {
			was, b.writer.begin = b.writer.begin, s
			return nil
		})
		return was
	}
	was := swap(&statement{stmt: broken{err: err}})
	return func() { swap(was) }
}

type broken struct {
	driver.Stmt
	err error
}

func (s broken) ExecContext(context.Context, []driver.NamedValue) (driver.Result, error) {
	return nil, s.err
}

// Panic is a call that panics within its transaction, on its caller's goroutine.
func (b *Backend) Panic() {
	b.turn <- struct{}{}
	b.runAlone(func(t txn) (storage.Outcome, error) {
		if err := t.ready(); err != nil {
			return storage.Outcome{}, err
		}
		panic("a call that panics")
	})
}

// Guess lets the lane know the versions of many records, and returns how many it knows then.
func (b *Backend) Guess(records int) int {
	b.turn <- struct{}{}
	defer b.passOn()
	for i := range records {
		b.writer.guesses.put(storage.RecordID{Resource: "a", Key: strconv.Itoa(i)}, 1)
	}
	return len(b.writer.guesses)
}

// Answers returns the number of a resource's idempotency records.
func (b *Backend) Answers(tb testing.TB, resource string) (n int) {
	tb.Helper()
	if err := b.reader.QueryRow("SELECT count(*) FROM fencegate_answers WHERE resource = ?1", resource).Scan(&n); err != nil {
		tb.Fatal(err)
	}
	return n
}

// Age makes the idempotency records that a resource has now overdue.
func (b *Backend) Age(tb testing.TB, resource string) {
	tb.Helper()
	b.Exec(tb, "UPDATE fencegate_answers SET created_at = created_at - ?2 WHERE resource = ?1", resource, b.retention.Milliseconds())
}

// Reader returns the pool that reads.
func (b *Backend) Reader() *sql.DB { return b.reader }
