package pgstore_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/pgtx/pgtxtest"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/storage/pgstore"
)

// TestEvictAll retires more marks than one transaction takes, with the gateway's rights only.
func TestEvictAll(t *testing.T) {
	t.Parallel()
	url := pgtxtest.Database(t)
	owner := pgtxtest.Open(t, url)
	b := backend(t, pgtxtest.Open(t, url, pgtxtest.As("fencegate_gateway")), nil)
	const marks = 2500
	_, err := owner.Exec(t.Context(), `insert into fencegate.marks (resource, number, grant_id, retired, incarnation)
		select 'many:' || i, i, case when i = 7 then '' else repeat('A', 26) end, i = 7,
			case when i % 2 = 0 then fencegate.incarnation() else 'earlier' end
		from generate_series(1, $1::int) as i`, marks)
	if err != nil {
		t.Fatal(err)
	}
	tok := raise(t, b, "a", 33)
	var told []int
	n, err := b.EvictAll(t.Context(), func(n int) { told = append(told, n) })
	if want := []int{1000, 2000, 2500}; n != marks || err != nil || !slices.Equal(told, want) {
		t.Errorf("got %d, %v, told %v, want %v", n, err, told, want)
	}
	var left, high int
	err = owner.QueryRow(t.Context(), `select count(*) filter (where not retired or grant_id <> ''), count(*) filter (where resource = 'many:' || number)
		from fencegate.marks`).Scan(&left, &high)
	if err != nil || left != 0 || high != marks {
		t.Errorf("%d marks are not retired, %d have their number, %v, want 0 and %d", left, high, err, marks)
	}
	wantStale(t, put(t.Context(), b, tok, "k", "v"), fencing.Retired)
	if err := put(t.Context(), b, raise(t, b, "a", 34), "k", "v"); err != nil {
		t.Errorf("a new token: %v", err)
	}
	if n, err := b.EvictAll(t.Context(), nil); n != 1 || err != nil {
		t.Errorf("again: got %d, %v, want the new one", n, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = b.EvictAll(ended, nil)
	wantOutcome(t, err, fencing.Failed)
}

// TestEvictAllWaits: it waits for the transactions in flight, as Evict does, and for none of
// them while it keeps others waiting.
func TestEvictAllWaits(t *testing.T) {
	t.Parallel()
	b, pool := fresh(t)
	raise(t, b, "a", 1)
	tok := raise(t, b, "b", 1)
	raise(t, b, "c", 1)
	inside, leave := make(chan struct{}), make(chan struct{})
	updated := make(chan error, 1)
	go func() {
		updated <- b.Update(t.Context(), func(pgx.Tx) error { close(inside); <-leave; return nil }, tok)
	}()
	<-inside
	type answer struct {
		n   int
		err error
	}
	done := make(chan answer, 1)
	go func() {
		n, err := b.EvictAll(t.Context(), nil)
		done <- answer{n, err}
	}()
	blocked(t, pool, 1)
	for _, resource := range []string{"a", "c"} {
		if m, err := b.Mark(t.Context(), resource); err != nil || !m.Retired {
			t.Errorf("%s: got the mark %v, %v, want it retired while b waits", resource, m, err)
		}
		raise(t, b, resource, 2) // waits for nobody
	}
	close(leave)
	if err := <-updated; err != nil {
		t.Errorf("the transaction in flight: %v", err)
	}
	if got := <-done; got.n != 3 || got.err != nil {
		t.Errorf("got %d, %v, want 3", got.n, got.err)
	}
	wantStale(t, put(t.Context(), b, tok, "k", "v"), fencing.Retired)
}

// TestEvictAllIsStuck: a transaction that nothing may end keeps its own mark, is named, and
// does not keep the others.
func TestEvictAllIsStuck(t *testing.T) {
	t.Parallel()
	url := pgtxtest.NewDatabase(t)
	pool := pgtxtest.Open(t, url)
	b := backend(t, pool, &pgstore.Options{RaiseTimeout: time.Second, MaxIdle: 100 * time.Millisecond})
	tok := raise(t, b, "b", 1)
	raise(t, b, "c", 1)
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	name := testenv.Unique(t, "stuck")
	for _, sql := range []string{
		"begin", "select from fencegate.marks where resource = 'b' for no key update", "prepare transaction '" + name + "'",
	} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	n, err := b.EvictAll(t.Context(), nil)
	if n != 1 || err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "waited 1s,") || errors.Is(err, fencing.ErrFailed) {
		t.Errorf("got %d, %v, want the other one, and an error that names the transaction, after RaiseTimeout", n, err)
	}
	wantOutcome(t, err, fencing.Unknown)
	if m, err := b.Mark(t.Context(), "c"); err != nil || !m.Retired {
		t.Errorf("got the mark %v, %v, want it retired", m, err)
	}
	if _, err := conn.Exec(t.Context(), "rollback prepared '"+name+"'"); err != nil {
		t.Fatal(err)
	}
	if n, err := b.EvictAll(t.Context(), nil); n != 1 || err != nil {
		t.Errorf("got %d, %v, want the last one", n, err)
	}
	wantStale(t, put(t.Context(), b, tok, "k", "v"), fencing.Retired)
}
