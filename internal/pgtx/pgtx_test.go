package pgtx_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/pgtx"
)

// lockError is what pgx answers where it noticed in the middle that a connection is gone: it
// says that it is safe to retry, although COMMIT may have been sent.
type lockError struct{}

func (lockError) Error() string     { return "conn closed" }
func (lockError) SafeToRetry() bool { return true }

func pgError(severity, code string) error {
	return fmt.Errorf("wrapped: %w", &pgconn.PgError{Severity: severity, SeverityUnlocalized: severity, Code: code})
}

// TestClassification is the table of what an error means, by where it came.
func TestClassification(t *testing.T) {
	t.Parallel()
	const failed, unknown = fencing.Failed, fencing.Unknown
	conn, _ := connect(t)
	for _, c := range []struct {
		name                     string
		err                      error
		alone, beside, committed fencing.Outcome // before COMMIT was sent; before it in one batch; for COMMIT itself
	}{
		{"serialization failure", pgError("ERROR", pgtx.SerializationFailure), failed, failed, failed},
		{"deadlock", pgError("ERROR", pgtx.DeadlockDetected), failed, failed, failed},
		{"constraint, deferred too", pgError("ERROR", "23514"), failed, failed, failed},
		{"lock timeout", pgError("ERROR", pgtx.LockNotAvailable), failed, failed, failed},
		{"cancelled", pgError("ERROR", "57014"), failed, failed, failed},
		{"idle in transaction", pgError("FATAL", "25P03"), failed, failed, failed},
		{"terminated", pgError("FATAL", "57P01"), failed, unknown, unknown},
		{"crashed", pgError("FATAL", "57P02"), failed, unknown, unknown},
		{"panic", pgError("PANIC", "XX000"), failed, unknown, unknown},
		{"a pooler that lost the server", pgError("FATAL", "08P01"), failed, unknown, unknown},
		{"a pooler that lost the server, and says so mildly", pgError("ERROR", "08006"), failed, unknown, unknown},
		{"a pooler that sends no severity in English", &pgconn.PgError{Severity: "ERROR", Code: "57014"}, failed, unknown, unknown},
		{"connection lost", io.ErrUnexpectedEOF, failed, unknown, unknown},
		{"connection lost, as pgx says it", fmt.Errorf("wrapped: %w", lockError{}), failed, unknown, unknown},
		{"context ended", context.DeadlineExceeded, failed, unknown, unknown},
		{"context cancelled", context.Canceled, failed, unknown, unknown},
		{"a statement that could not be prepared", fmt.Errorf("wrapped: %w", pgx.ErrPreprocessingBatch{}), failed, failed, failed},
		{"rolled back", pgx.ErrTxCommitRollback, failed, unknown, failed},
	} {
		for where, got := range map[string][2]fencing.Outcome{
			"alone":    {fencing.OutcomeOf(pgtx.Before(c.err, false)), c.alone},
			"beside":   {fencing.OutcomeOf(pgtx.Before(c.err, true)), c.beside},
			"COMMIT's": {fencing.OutcomeOf(pgtx.Committed(conn, pgconn.CommandTag{}, c.err)), c.committed},
		} {
			if got[0] != got[1] {
				t.Errorf("%s, %s: got %v, want %v", c.name, where, got[0], got[1])
			}
		}
	}
	if got := pgtx.Committed(conn, pgconn.NewCommandTag("COMMIT"), nil); got != nil {
		t.Errorf("COMMIT: got %v, want nil", got)
	}
	if got := pgtx.Committed(conn, pgconn.NewCommandTag("ROLLBACK"), nil); fencing.OutcomeOf(got) != failed {
		t.Errorf("ROLLBACK: got %v, want failed", got)
	}
	if pgtx.Before(nil, true) != nil {
		t.Error("nil did not stay nil")
	}
}

// TestConfigure calls it twice, as somebody does who wires two backends on one pool.
func TestConfigure(t *testing.T) {
	t.Parallel()
	notices, connects := 0, 0
	conn, c := connect(t, func(c *pgxpool.Config) {
		c.ConnConfig.OnNotice = func(*pgconn.PgConn, *pgconn.Notice) { notices++ }
		c.AfterConnect = func(context.Context, *pgx.Conn) error { connects++; return nil }
	}, pgtx.Configure, pgtx.Configure)
	if !pgtx.Configured(conn) {
		t.Error("the connection is not known as configured")
	}
	notice := func(routine string) { c.ConnConfig.OnNotice(conn.PgConn(), &pgconn.Notice{Routine: routine}) }
	commit := func() fencing.Outcome {
		return fencing.OutcomeOf(pgtx.Committed(conn, pgconn.NewCommandTag("COMMIT"), nil))
	}
	notice("SyncRepWaitForLSN")
	if got := commit(); got != fencing.Unknown {
		t.Errorf("without its standby: got %v, want unknown", got)
	}
	if got := commit(); got != fencing.Applied {
		t.Errorf("the next one: got %v, want applied", got)
	}
	notice("exec_stmt_raise")
	if got := commit(); got != fencing.Applied {
		t.Errorf("after another warning: got %v, want applied", got)
	}
	notice("SyncRepWaitForLSN")
	pgtx.Forget(conn)
	if got := commit(); got != fencing.Applied {
		t.Errorf("after a warning that was forgotten: got %v, want applied", got)
	}
	if notices != 3 || connects != 1 {
		t.Errorf("hooks that were there before: %d notices and %d connects, want 3 and 1", notices, connects)
	}
	if plain, _ := connect(t); pgtx.Configured(plain) {
		t.Error("a pool that was not prepared counts as configured")
	}
}

// TestDeadline: the server gives up before the context does, and a context always ends.
func TestDeadline(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ left, least, most time.Duration }{
		{time.Minute, 30 * time.Second, 59500 * time.Millisecond}, // the machine may stand still in between
		{500 * time.Millisecond, time.Millisecond, 450 * time.Millisecond},
		{-time.Second, time.Millisecond, time.Millisecond}, // never 0, which would be no limit
	} {
		ctx, cancel := context.WithTimeout(t.Context(), c.left)
		_, wait, end := pgtx.Deadline(ctx, time.Hour, time.Hour)
		if wait < c.least || wait > c.most {
			t.Errorf("%v left: got a wait of %v, want %v to %v", c.left, wait, c.least, c.most)
		}
		end()
		cancel()
	}
	ctx, wait, cancel := pgtx.Deadline(t.Context(), time.Second, time.Minute)
	defer cancel()
	end, ok := ctx.Deadline()
	if left := time.Until(end); wait != time.Second || !ok || left > time.Minute || left < 50*time.Second {
		t.Errorf("no deadline: got a wait of %v and %v left, want 1s and 1m", wait, left)
	}
}

func TestScrub(t *testing.T) {
	t.Parallel()
	in := &pgconn.PgError{Message: "message", Detail: "secret", Where: "secret", InternalQuery: "secret"}
	err := pgtx.Scrub(fmt.Errorf("wrapped: %w", in))
	if e, ok := errors.AsType[*pgconn.PgError](err); !ok || strings.Contains(fmt.Sprintf("%v %+v", err, *e), "secret") || e.Message != "message" {
		t.Errorf("got %+v, want the message and nothing else", in)
	}
}

// connect returns a connection to a server that only lets it in, and its configuration.
func connect(tb testing.TB, change ...func(*pgxpool.Config)) (*pgx.Conn, *pgxpool.Config) {
	tb.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = l.Close() })
	go func() {
		server, err := l.Accept()
		if err != nil {
			return
		}
		defer server.Close()
		b := pgproto3.NewBackend(server, server)
		_, _ = b.ReceiveStartupMessage()
		b.Send(&pgproto3.AuthenticationOk{})
		b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
		_ = b.Flush()
		_, _ = io.Copy(io.Discard, server) // until the client goes
	}()
	c, err := pgxpool.ParseConfig("postgres://nobody@" + l.Addr().String() + "/none?sslmode=disable")
	if err != nil {
		tb.Fatal(err)
	}
	for _, f := range change {
		f(c)
	}
	conn, err := pgx.ConnectConfig(tb.Context(), c.ConnConfig)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = conn.Close(context.WithoutCancel(tb.Context())) })
	if c.AfterConnect != nil { // as a pool does
		if err := c.AfterConnect(tb.Context(), conn); err != nil {
			tb.Fatal(err)
		}
	}
	return conn, c
}
