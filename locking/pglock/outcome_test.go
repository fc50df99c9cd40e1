package pglock_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/pgtx/pgtxtest"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/locking/pglock"
)

// TestReplyLost: a connection that answers no more, or a pooler that answers in the server's
// place, which it lost. The grant's outcome is unknown; asked again with the same grant, there
// is one hold, and its number was not drawn by that call.
func TestReplyLost(t *testing.T) {
	t.Parallel()
	for name, last := range map[string][]byte{"cut": nil, "pooler": pgtxtest.ServerCrashed()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := pgtxtest.Database(t)
			direct := backend(t, pgtxtest.Open(t, url, gateway))
			deaf := make(chan struct{})
			b := backend(t, pgtxtest.Open(t, url, gateway, func(c *pgxpool.Config) { goesDeaf(t, c, deaf, last) }))
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
		})
	}
}

// goesDeaf puts a proxy between, which passes requests on and cuts the connection instead of
// passing an answer once deaf is closed; last is what it says before.
func goesDeaf(tb testing.TB, c *pgxpool.Config, deaf <-chan struct{}, last []byte) {
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
						_, _ = client.Write(last)
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

// TestTimeoutBoundsEveryCall: no connection is free, and the contexts have no deadline.
func TestTimeoutBoundsEveryCall(t *testing.T) {
	t.Parallel()
	pool := pgtxtest.Open(t, pgtxtest.Database(t), func(c *pgxpool.Config) { c.MaxConns = 1 })
	b, err := pglock.New(t.Context(), pool, &pglock.Options{Timeout: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	r := request(t)
	tok := fencing.Token{Resource: r.Resource, Number: 1, Grant: r.Grant}
	ctx := context.Background() // one without an end
	for name, call := range map[string]func() error{
		"TryAcquire": func() error { _, err := b.TryAcquire(ctx, r); return err },
		"Renew":      func() error { return b.Renew(ctx, time.Second, []fencing.Token{tok})[0] },
		"Release":    func() error { _, err := b.Release(ctx, tok); return err },
		"Evict":      func() error { return b.Evict(ctx, r.Resource, 1) },
		"Status":     func() error { _, err := b.Status(ctx, r.Resource); return err },
		"List":       func() error { _, err := b.List(ctx, "", "", 1); return err },
	} {
		done := make(chan error, 1)
		go func() { done <- call() }()
		select {
		case err := <-done:
			if fencing.OutcomeOf(err) != fencing.Failed {
				t.Errorf("%s = %v (%v), want failed", name, err, fencing.OutcomeOf(err))
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("%s does not end", name)
		}
	}
}
