package pglock_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/internal/pgtx/pgtxtest"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/locking/lockingtest"
	"github.com/fencegate/fencegate/locking/pglock"
)

// TestThroughPooler: sessions change with every transaction. What locks needs none; word of a
// hand-over comes on a connection that goes to the server, or waiters look.
func TestThroughPooler(t *testing.T) {
	t.Parallel()
	url := pgtxtest.NewDatabase(t)
	g := &gate{url: url}
	through := pgtxtest.Open(t, pgtxtest.Pooler(t, url), func(c *pgxpool.Config) {
		c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	})
	for name, o := range map[string]*pglock.Options{"looks": {NoListen: true}, "listens": {Listen: g.listen}} {
		b, err := pglock.New(t.Context(), through, o)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lockingtest.RunBackend(t, lockingtest.BackendHarness{
				New:    func(testing.TB) locking.Backend { return b },
				Unique: testenv.Unique,
				Wakes:  o.Listen != nil, Line: o.Listen != nil, Transfers: true,
			})
			r := request(t)
			tok := acquire(t, b, r).Token
			w := newWaiter(b, r).takesPlace(t)
			if name == "listens" {
				w.woken(t)
			}
			release(t, b, tok)
			if name == "listens" {
				w.woken(t)
				w.granted(t, 2, true)
				return
			}
			if h, calls, err := w.wait(t.Context()); err != nil || h.Token.Number != 2 || calls != 1 {
				t.Errorf("got %v, %v after %d calls, want number 2 with the first look", h.Token, err, calls)
			}
		})
	}
}
