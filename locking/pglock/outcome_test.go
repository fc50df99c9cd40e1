package pglock_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/locking/pglock"
)

// lockError is what pgx answers where it noticed in the middle that a connection is gone: it
// says that it is safe to retry, although COMMIT may have been sent.
type lockError struct{}

func (lockError) Error() string     { return "conn closed" }
func (lockError) SafeToRetry() bool { return true }

func pgError(severity, code string) error {
	return fmt.Errorf("wrapped: %w", &pgconn.PgError{Severity: severity, SeverityUnlocalized: severity, Code: code})
}

// TestClassification is the table of what an error means, before COMMIT in the same batch and
// for COMMIT itself.
func TestClassification(t *testing.T) {
	t.Parallel()
	const failed, unknown = fencing.Failed, fencing.Unknown
	conn, err := pgx.Connect(t.Context(), testenv.SharedPostgres(t).URL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	for _, c := range []struct {
		err               error
		before, committed fencing.Outcome
	}{
		{pgError("ERROR", "40001"), failed, failed},
		{pgError("ERROR", "55P03"), failed, failed},
		{pgError("FATAL", "57P01"), failed, unknown},
		{pgError("PANIC", "XX000"), failed, unknown},
		{io.ErrUnexpectedEOF, unknown, unknown},
		{lockError{}, unknown, unknown},
		{context.Canceled, unknown, unknown},
	} {
		if got := fencing.OutcomeOf(pglock.Before(c.err)); got != c.before {
			t.Errorf("%v before COMMIT: got %v, want %v", c.err, got, c.before)
		}
		if got := fencing.OutcomeOf(pglock.Committed(conn, pgconn.CommandTag{}, c.err)); got != c.committed {
			t.Errorf("%v for COMMIT: got %v, want %v", c.err, got, c.committed)
		}
	}
	if err := pglock.Committed(conn, pgconn.NewCommandTag("COMMIT"), nil); err != nil {
		t.Errorf("COMMIT: got %v, want nil", err)
	}
	if err := pglock.Committed(conn, pgconn.NewCommandTag("ROLLBACK"), nil); fencing.OutcomeOf(err) != failed {
		t.Errorf("ROLLBACK: got %v, want failed", err)
	}
}

// TestReplyLost: a connection that answers no more. The grant's outcome is unknown; asked
// again with the same grant, there is one hold, and its number was not drawn by that call.
func TestReplyLost(t *testing.T) {
	t.Parallel()
	url := newDatabase(t)
	direct := backend(t, open(t, url, gateway))
	deaf := make(chan struct{})
	b := backend(t, open(t, url, gateway, func(c *pgxpool.Config) { goesDeaf(t, c, deaf) }))
	acquire(t, b, request(t)) // statements are prepared
	close(deaf)
	r := request(t)
	_, err := b.TryAcquire(t.Context(), r)
	if got := fencing.OutcomeOf(err); got != fencing.Unknown || errors.Is(err, locking.ErrLost) {
		t.Fatalf("got %v (%v), want unknown", err, got)
	}
	testenv.Eventually(t, testPatience, "the attempt has ended", func() bool {
		st, err := direct.Status(t.Context(), r.Resource)
		return err == nil && st.Held
	})
	if h := acquire(t, direct, r); h.Drawn || h.Token.Number != 1 {
		t.Errorf("asked again: got %v, drawn %t, want number 1, not drawn", h.Token, h.Drawn)
	}
}

// goesDeaf puts a proxy between, which passes requests on and cuts the connection instead of
// passing an answer once deaf is closed.
func goesDeaf(tb testing.TB, c *pgxpool.Config, deaf <-chan struct{}) {
	tb.Helper()
	target := net.JoinHostPort(c.ConnConfig.Host, strconv.Itoa(int(c.ConnConfig.Port)))
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = l.Close() })
	c.ConnConfig.Port = uint16(l.Addr().(*net.TCPAddr).Port)
	c.MaxConns = 1
	c.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp4", target)
			if err != nil {
				_ = client.Close()
				continue
			}
			go func() {
				defer server.Close()
				_, _ = io.Copy(server, client)
			}()
			go func() {
				defer client.Close()
				buf := make([]byte, 1<<16)
				for {
					n, err := server.Read(buf)
					if err != nil {
						return
					}
					select {
					case <-deaf:
						return
					default:
					}
					if _, err := client.Write(buf[:n]); err != nil {
						return
					}
				}
			}()
		}
	}()
}
