package pglock_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/pgtx/pgtxtest"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/locking"
)

// TestPoolHasItsOwnNotifications: its hook does not get what is for those who wait.
func TestPoolHasItsOwnNotifications(t *testing.T) {
	t.Parallel()
	b, _ := own(t, func(c *pgxpool.Config) {
		c.ConnConfig.OnNotification = func(*pgconn.PgConn, *pgconn.Notification) { t.Error("the pool's hook was called") }
	})
	r := request(t)
	tok := acquire(t, b, r).Token
	w := newWaiter(b, r).takesPlace(t)
	w.woken(t) // it listens
	release(t, b, tok)
	w.woken(t)
	w.granted(t, 2, true)
}

// TestFailedJoinKeepsNobodyListening: it has no place that its caller would leave. One that has a
// place still gets word after a Join that failed.
func TestFailedJoinKeepsNobodyListening(t *testing.T) {
	t.Parallel()
	b, owner := own(t)
	r := request(t)
	tok := acquire(t, b, r).Token
	w := newWaiter(b, r).takesPlace(t)
	w.woken(t)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for _, failing := range []*waiter{newWaiter(b, r), w} {
		if _, err := failing.join(over); fencing.OutcomeOf(err) != fencing.Failed {
			t.Fatalf("got %v (%v), want failed", err, fencing.OutcomeOf(err))
		}
	}
	release(t, b, tok)
	w.woken(t)
	release(t, b, w.granted(t, 2, true).Token)
	// In less than checkEvery, when the connection would be asked something else.
	testenv.Eventually(t, 8*time.Second, "nobody listens", func() bool { return len(listening(t, owner)) == 0 })
}

// TestNotificationQueueHalfFull: the lock is handed over without word of it, which would fail
// with the queue full. The server's queue is not filled, its size is pretended.
func TestNotificationQueueHalfFull(t *testing.T) {
	t.Parallel()
	url := pgtxtest.NewDatabase(t)
	owner := pgtxtest.Open(t, url)
	exec(t, owner, "create schema pretended")
	exec(t, owner, "grant usage on schema pretended to public")
	exec(t, owner, "create function pretended.pg_notification_queue_usage() returns float8 return 0.5")
	var serve string
	if err := owner.QueryRow(t.Context(), "select pg_get_functiondef('fencegate.lock_serve'::regproc)").Scan(&serve); err != nil {
		t.Fatal(err)
	}
	exec(t, owner, strings.ReplaceAll(serve, "pg_notification_queue_usage", "pretended.pg_notification_queue_usage"))
	b := backend(t, pgtxtest.Open(t, url, gateway, func(c *pgxpool.Config) {
		c.ConnConfig.RuntimeParams["search_path"] = "pretended, pg_catalog"
	}))
	r := request(t)
	tok := acquire(t, b, r).Token
	w := newWaiter(b, r).takesPlace(t)
	w.woken(t)
	release(t, b, tok)
	select {
	case <-w.wake:
		t.Error("word was sent")
	case <-time.After(locking.LookEvery / 2):
	}
	w.granted(t, 2, true)
	list, err := b.Warnings(t.Context())
	if err != nil || len(list) != 3 || !strings.Contains(list[2], "full to 50 %: waiters look once per 1s") {
		t.Errorf("got %q, %v, want a third warning, of the queue", list, err)
	}
}
