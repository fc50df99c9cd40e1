package sqlitestore

import (
	"database/sql"
	"testing"

	"modernc.org/sqlite"

	"github.com/fencegate/fencegate/fencing/fencingtest"
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

// Exec runs a statement on the writer.
func (b *Backend) Exec(tb testing.TB, query string, args ...any) {
	tb.Helper()
	if _, err := b.writer.ExecContext(tb.Context(), query, args...); err != nil {
		tb.Fatal(err)
	}
}

// OnCommit calls hook within every COMMIT; SQLite refuses it where the hook returns
// anything but 0. Nil ends that.
func (b *Backend) OnCommit(tb testing.TB, hook func() int32) {
	tb.Helper()
	conn, err := b.writer.Conn(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	defer conn.Close()
	_ = conn.Raw(func(c any) error {
		c.(sqlite.HookRegisterer).RegisterCommitHook(hook)
		return nil
	})
}

// Reader returns the pool that reads.
func (b *Backend) Reader() *sql.DB { return b.reader }
