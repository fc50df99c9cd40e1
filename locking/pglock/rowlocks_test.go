package pglock_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/pgtx/pgtxtest"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/locking/lockingtest"
	"github.com/fencegate/fencegate/locking/pglock"
)

// rowLocks returns what one process has.
func rowLocks(tb testing.TB, url string, change ...func(*pgxpool.Config)) *pglock.RowLocks {
	tb.Helper()
	few := func(c *pgxpool.Config) { c.MaxConns = 8 }
	b, err := pglock.NewRowLocks(tb.Context(), pgtxtest.Open(tb, url, gateway, few), pgtxtest.Open(tb, url, append(change, gateway)...), nil)
	if err != nil {
		tb.Fatal(err)
	}
	closes(tb, b)
	return b
}

// closes ends the holds that are left, without which the pool of their connections waits for them.
func closes(tb testing.TB, b *pglock.RowLocks) {
	tb.Helper()
	tb.Cleanup(func() {
		if err := b.Close(context.WithoutCancel(tb.Context())); err != nil {
			tb.Error(err)
		}
	})
}

// holder returns the server's process whose transaction has the row of a lock.
func holder(tb testing.TB, owner *pgxpool.Pool, resource string) (pid int32) {
	tb.Helper()
	err := owner.QueryRow(tb.Context(), `select l.pid from fencegate.row_locks r
		join pg_locks l on l.locktype = 'transactionid' and l.granted and l.mode = 'ExclusiveLock' and l.transactionid = r.xmax where r.resource = $1`, resource).Scan(&pid)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		tb.Fatal(err)
	}
	return pid
}

func TestRowLocks(t *testing.T) {
	t.Parallel()
	url := pgtxtest.Database(t)
	lockingtest.RunBackend(t, lockingtest.BackendHarness{
		New:    func(tb testing.TB) locking.Backend { return rowLocks(tb, url) },
		Unique: testenv.Unique,
		Wakes:  true,
	})
}

// TestRowLockOfAnotherProcess: the hold is seen there, its grant finds it, only its own process
// renews it, and whoever has the token ends it.
func TestRowLockOfAnotherProcess(t *testing.T) {
	t.Parallel()
	url := pgtxtest.Database(t)
	a, b := rowLocks(t, url), rowLocks(t, url)
	r := request(t)
	h := acquire(t, a, r)
	held, ok := errors.AsType[*locking.HeldError](second(b.TryAcquire(t.Context(), next(r))))
	if !ok || held.Number != 1 || held.Label != "test" || held.Remaining <= 0 || held.Remaining > r.TTL {
		t.Errorf("got %+v, want the holder's number, label and remaining time", held)
	}
	if st := status(t, b, r.Resource); !st.Held || st.Number != 1 || st.Label != "test" || st.Remaining <= 0 {
		t.Errorf("status: %+v, want the hold", st)
	}
	if l, err := b.List(t.Context(), r.Resource, "", 9); err != nil || len(l) != 1 || l[0].Number != 1 {
		t.Errorf("list: %+v, %v, want the hold", l, err)
	}
	if again := acquire(t, b, r); again.Token != h.Token || again.Drawn {
		t.Errorf("the same grant: got %v, drawn %t, want its hold", again.Token, again.Drawn)
	}
	above := r
	above.Floor = 7
	for what, err := range map[string]error{
		"renew": b.Renew(t.Context(), time.Minute, []fencing.Token{h.Token})[0], "a new number": second(b.TryAcquire(t.Context(), above)),
	} {
		if fencing.OutcomeOf(err) != fencing.Failed || errors.Is(err, locking.ErrLost) {
			t.Errorf("%s: got %v, want failed", what, err)
		}
	}
	wrong := h.Token
	wrong.Grant = fencing.NewGrant()
	if freed, err := b.Release(t.Context(), wrong); freed || err != nil {
		t.Errorf("release by another grant: %t, %v", freed, err)
	}
	if err := a.Renew(t.Context(), time.Minute, []fencing.Token{h.Token})[0]; err != nil {
		t.Errorf("renew by its own process: %v", err)
	}
	release(t, b, h.Token)
	if err := a.Renew(t.Context(), time.Minute, []fencing.Token{h.Token})[0]; !errors.Is(err, locking.ErrLost) {
		t.Errorf("renew after it was ended elsewhere: got %v, want ErrLost", err)
	}
	h = acquire(t, b, next(r))
	if err := a.Evict(t.Context(), r.Resource, h.Token.Number+1); err != nil || !status(t, a, r.Resource).Held {
		t.Errorf("evict of another number: %v", err)
	}
	if err := a.Evict(t.Context(), r.Resource, h.Token.Number); err != nil || status(t, a, r.Resource).Held {
		t.Errorf("evict: %v", err)
	}
	if _, err := b.TryAcquire(t.Context(), locking.Request{Resource: r.Resource, Grant: h.Token.Grant, TTL: r.TTL}); !errors.Is(err, locking.ErrLost) {
		t.Errorf("the evicted grant again: got %v, want ErrLost", err)
	}
	acquire(t, a, next(r))
}

// TestRowLockConnectionDrops: the lock is free at once, its holder learns it from its renewal.
func TestRowLockConnectionDrops(t *testing.T) {
	t.Parallel()
	url := pgtxtest.Database(t)
	owner := pgtxtest.Open(t, url)
	a, b := rowLocks(t, url), rowLocks(t, url)
	r := request(t)
	h := acquire(t, a, r)
	exec(t, owner, "select pg_terminate_backend($1, 10000)", holder(t, owner, r.Resource))
	if st := status(t, b, r.Resource); st.Held || st.Number != 1 {
		t.Errorf("got %+v, want a free lock", st)
	}
	if got := acquire(t, b, next(r)); got.Token.Number != 2 {
		t.Errorf("got %v, want number 2", got.Token)
	}
	if err := a.Renew(t.Context(), time.Minute, []fencing.Token{h.Token})[0]; !errors.Is(err, locking.ErrLost) {
		t.Errorf("renew: got %v, want ErrLost", err)
	}
	if _, err := a.TryAcquire(t.Context(), r); !errors.Is(err, locking.ErrHeld) {
		t.Errorf("the same grant: got %v, want that the next one holds it", err)
	}
	if freed, err := a.Release(t.Context(), h.Token); freed || err != nil {
		t.Errorf("release: %t, %v, want false", freed, err)
	}
}

// TestRowLockGrantAgainAfterDrop: the hold is not returned whose connection has gone.
func TestRowLockGrantAgainAfterDrop(t *testing.T) {
	t.Parallel()
	url := pgtxtest.Database(t)
	owner := pgtxtest.Open(t, url)
	for name, floor := range map[string]int64{"same number": 0, "higher number": 5} {
		b := rowLocks(t, url)
		r := request(t)
		acquire(t, b, r)
		exec(t, owner, "select pg_terminate_backend($1, 10000)", holder(t, owner, r.Resource))
		r.Floor = floor
		for range 2 {
			if h, err := b.TryAcquire(t.Context(), r); !errors.Is(err, locking.ErrLost) {
				t.Errorf("%s: got %v, %v, want ErrLost", name, h.Token, err)
			}
		}
		acquire(t, b, next(r))
	}
}

// TestRowLockReleaseAfterDrop, or in the middle of it.
func TestRowLockReleaseAfterDrop(t *testing.T) {
	t.Parallel()
	url := pgtxtest.Database(t)
	owner := pgtxtest.Open(t, url)
	b := rowLocks(t, url)
	r := request(t)
	h := acquire(t, b, r)
	exec(t, owner, "select pg_terminate_backend($1, 10000)", holder(t, owner, r.Resource))
	if freed, err := b.Release(t.Context(), h.Token); freed || err != nil {
		t.Errorf("got %t, %v, want false", freed, err)
	}
}

// TestRowLockFirstUse: 16 processes make the row at once, one has it.
func TestRowLockFirstUse(t *testing.T) {
	t.Parallel()
	url := pgtxtest.Database(t)
	var list []*pglock.RowLocks
	for range 16 {
		list = append(list, rowLocks(t, url, func(c *pgxpool.Config) { c.MaxConns = 2 }))
	}
	r := request(t)
	start := make(chan struct{})
	won := make(chan int64, len(list))
	var wg sync.WaitGroup
	for _, b := range list {
		wg.Go(func() {
			<-start
			h, err := b.TryAcquire(t.Context(), next(r))
			if err == nil {
				won <- h.Token.Number
			} else if !errors.Is(err, locking.ErrHeld) {
				t.Error(err)
			}
		})
	}
	close(start)
	wg.Wait()
	if len(won) != 1 {
		t.Fatalf("%d have the lock, want 1", len(won))
	}
	if n := <-won; n != 1 {
		t.Errorf("got number %d, want 1", n)
	}
}

// TestRowLockTakeTurns: the order of numbers is the order of grants, in several processes, with
// waiting and single attempts, releases, evictions and lost connections.
func TestRowLockTakeTurns(t *testing.T) {
	t.Parallel()
	url := pgtxtest.Database(t)
	owner := pgtxtest.Open(t, url)
	list := []*pglock.RowLocks{rowLocks(t, url), rowLocks(t, url), rowLocks(t, url)}
	r := request(t)
	var mu sync.Mutex
	var numbers []int64
	holding := 0
	var wg sync.WaitGroup
	for i := range 9 {
		b := list[i%len(list)]
		wg.Go(func() {
			for n := range 6 {
				mine := next(r)
				h, err := b.Join(t.Context(), mine, func() {})
				for errors.Is(err, locking.ErrHeld) {
					h, err = b.Join(t.Context(), mine, func() {})
				}
				if err != nil {
					t.Errorf("join: %v", err)
					return
				}
				mu.Lock()
				numbers = append(numbers, h.Token.Number)
				if holding++; holding != 1 {
					t.Errorf("%d hold the lock", holding)
				}
				mu.Unlock()
				if err := b.Renew(t.Context(), time.Minute, []fencing.Token{h.Token})[0]; err != nil {
					t.Errorf("renew: %v", err)
				}
				mu.Lock()
				holding--
				mu.Unlock()
				switch (i + n) % 4 {
				case 0:
					err = list[(i+1)%len(list)].Evict(t.Context(), r.Resource, h.Token.Number)
				case 1:
					_, err = owner.Exec(t.Context(), "select pg_terminate_backend($1, 10000)", holder(t, owner, r.Resource))
				default:
					_, err = b.Release(t.Context(), h.Token)
				}
				if err != nil {
					t.Errorf("end: %v", err)
				}
			}
		})
	}
	wg.Wait()
	if len(numbers) != 54 || !slices.IsSorted(numbers) || len(slices.Compact(slices.Clone(numbers))) != 54 {
		t.Errorf("got the numbers %v, want 54, each above the one before", numbers)
	}
}

// TestRowLockWaits: in the server's line, for a second at a time, and no longer than the context.
func TestRowLockWaits(t *testing.T) {
	t.Parallel()
	url := pgtxtest.Database(t)
	owner := pgtxtest.Open(t, url)
	a, b := rowLocks(t, url), rowLocks(t, url)
	r := request(t)
	h := acquire(t, a, r)
	woken := 0
	start := time.Now()
	_, err := b.Join(t.Context(), next(r), func() { woken++ })
	if took := time.Since(start); !errors.Is(err, locking.ErrHeld) || took < locking.LookEvery || woken != 1 {
		t.Errorf("got %v after %v, %d wakes, want held after %v, and to ask again at once", err, took, woken, locking.LookEvery)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := b.Join(ctx, next(r), func() {}); err == nil {
		t.Error("a lock that is held was granted")
	}
	granted := make(chan error)
	go func() {
		h, err := b.Join(t.Context(), next(r), func() {})
		if err == nil && (h.Token.Number != 2 || !h.Drawn) {
			t.Errorf("got %v, drawn %t, want number 2, drawn", h.Token, h.Drawn)
		}
		granted <- err
	}()
	testenv.Eventually(t, testPatience, "it waits", func() bool {
		var n int
		_ = owner.QueryRow(t.Context(), "select count(*) from pg_locks where not granted and pid in (select pid from pg_stat_activity where datname = current_database())").Scan(&n)
		return n > 0
	})
	release(t, a, h.Token)
	if err := <-granted; err != nil {
		t.Errorf("after the release: %v", err)
	}
	if err := b.Leave(t.Context(), r); err != nil {
		t.Error(err)
	}
}

// TestRowLockNoConnection: the pool of the holders is used up; that of the numbers does not answer.
func TestRowLockNoConnection(t *testing.T) {
	t.Parallel()
	url := pgtxtest.Database(t)
	numbers := pgtxtest.Open(t, url, gateway, func(c *pgxpool.Config) { c.MaxConns = 1 })
	b, err := pglock.NewRowLocks(t.Context(), numbers, pgtxtest.Open(t, url, gateway, func(c *pgxpool.Config) { c.MaxConns = 1 }),
		&pglock.RowOptions{Timeout: 300 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	closes(t, b)
	other := rowLocks(t, url)
	r := request(t)
	tok := acquire(t, b, r).Token
	if _, err := b.TryAcquire(t.Context(), request(t)); fencing.OutcomeOf(err) != fencing.Failed {
		t.Errorf("no connection for another hold: got %v (%v), want failed", err, fencing.OutcomeOf(err))
	}
	release(t, b, tok)

	busy, err := numbers.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r = next(r)
	if _, err := b.TryAcquire(t.Context(), r); fencing.OutcomeOf(err) != fencing.Failed {
		t.Errorf("no connection for the number: got %v (%v), want failed", err, fencing.OutcomeOf(err))
	}
	if h := acquire(t, other, next(r)); h.Token.Number != 2 {
		t.Errorf("afterwards: got %v, want number 2", h.Token)
	}
	busy.Release()
}

// TestRowLockNumberReplyLost, twice: the number is drawn or not, and nothing is held.
func TestRowLockNumberReplyLost(t *testing.T) {
	t.Parallel()
	url := pgtxtest.Database(t)
	deaf := make(chan struct{})
	b, err := pglock.NewRowLocks(t.Context(), pgtxtest.Open(t, url, gateway, func(c *pgxpool.Config) { goesDeaf(t, c, deaf, nil) }),
		pgtxtest.Open(t, url, gateway), nil)
	if err != nil {
		t.Fatal(err)
	}
	closes(t, b)
	other := rowLocks(t, url)
	r := request(t)
	release(t, b, acquire(t, b, r).Token) // statements are prepared
	close(deaf)
	r = next(r)
	if _, err := b.TryAcquire(t.Context(), r); fencing.OutcomeOf(err) != fencing.Unknown {
		t.Errorf("got %v (%v), want unknown", err, fencing.OutcomeOf(err))
	}
	if st := status(t, other, r.Resource); st.Held || st.Number > 2 {
		t.Errorf("got %+v, want a free lock, and one number at most", st)
	}
	if h, err := other.TryAcquire(t.Context(), r); !errors.Is(err, locking.ErrLost) {
		t.Errorf("the same grant again: got %v, %v, want ErrLost, for its number was drawn", h.Token, err)
	}
	acquire(t, other, next(r))
}

// TestRowLockNumberComesLate: its holder has lost the lock before the number is drawn. Then none is.
func TestRowLockNumberComesLate(t *testing.T) {
	t.Parallel()
	url := pgtxtest.Database(t)
	owner := pgtxtest.Open(t, url)
	a, b := rowLocks(t, url), rowLocks(t, url)
	r := request(t)
	release(t, a, acquire(t, a, r).Token) // the row is there
	tx, err := owner.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := tx.Exec(t.Context(), "select from fencegate.row_grants where resource = $1 for update", r.Resource); err != nil {
		t.Fatal(err)
	}
	late := make(chan error)
	go func() { late <- second(a.TryAcquire(t.Context(), next(r))) }()
	testenv.Eventually(t, testPatience, "the number is waited for", func() bool {
		var n int
		_ = owner.QueryRow(t.Context(), "select count(*) from pg_locks where not granted and pid in (select pid from pg_stat_activity where datname = current_database())").Scan(&n)
		return n > 0 && holder(t, owner, r.Resource) > 0
	})
	exec(t, owner, "select pg_terminate_backend($1, 10000)", holder(t, owner, r.Resource))
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-late; fencing.OutcomeOf(err) != fencing.Failed {
		t.Errorf("got %v (%v), want failed", err, fencing.OutcomeOf(err))
	}
	if h := acquire(t, b, next(r)); h.Token.Number != 2 {
		t.Errorf("the next one: got %v, want number 2", h.Token)
	}
}

// TestRowLockExpires: on this process' clock, when nobody renews it. Its connection stays.
func TestRowLockExpires(t *testing.T) {
	t.Parallel()
	url := pgtxtest.Database(t)
	owner := pgtxtest.Open(t, url)
	a, b := rowLocks(t, url, func(c *pgxpool.Config) { c.MaxConns = 1 }), rowLocks(t, url)
	stayed := false
	for try := 0; try < 5 && !stayed; try++ { // on a busy machine the server may be first
		r := request(t)
		r.TTL = 300 * time.Millisecond
		start := time.Now()
		h := acquire(t, a, r)
		session := holder(t, owner, r.Resource)
		testenv.Eventually(t, testPatience, "the hold ends", func() bool {
			_, err := b.TryAcquire(t.Context(), next(r))
			return err == nil
		})
		if took := time.Since(start); took < r.TTL {
			t.Errorf("it was free after %v, want %v", took, r.TTL)
		}
		if err := a.Renew(t.Context(), time.Minute, []fencing.Token{h.Token})[0]; !errors.Is(err, locking.ErrLost) {
			t.Errorf("renew: got %v, want ErrLost", err)
		}
		r = request(t)
		tok := acquire(t, a, r).Token
		stayed = holder(t, owner, r.Resource) == session
		release(t, a, tok)
	}
	if !stayed {
		t.Error("the server ended the sessions of holds that had expired")
	}
}

// TestRowLockMarkAboveCounter: the number is above what the store has seen.
func TestRowLockMarkAboveCounter(t *testing.T) {
	t.Parallel()
	url := pgtxtest.Database(t)
	b := rowLocks(t, url)
	r := request(t)
	exec(t, pgtxtest.Open(t, url), "insert into fencegate.marks (resource, number, grant_id, retired, incarnation) values ($1, 33, '', true, 'earlier')", r.Resource)
	if h := acquire(t, b, r); h.Token.Number != 34 {
		t.Errorf("got %v, want number 34", h.Token)
	}
}

// TestRowLockClose ends what is held and lets nothing begin.
func TestRowLockClose(t *testing.T) {
	t.Parallel()
	url := pgtxtest.Database(t)
	a, b := rowLocks(t, url), rowLocks(t, url)
	r := request(t)
	h := acquire(t, a, r)
	for range 2 {
		if err := a.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := a.TryAcquire(t.Context(), next(r)); fencing.OutcomeOf(err) != fencing.Failed {
		t.Errorf("got %v, want failed", err)
	}
	if err := a.Renew(t.Context(), time.Minute, []fencing.Token{h.Token})[0]; !errors.Is(err, locking.ErrLost) {
		t.Errorf("renew: got %v, want ErrLost", err)
	}
	acquire(t, b, next(r))
}

// TestRowLockEndsOnlyHolders: a session is ended only if its transaction has the very row.
func TestRowLockEndsOnlyHolders(t *testing.T) {
	t.Parallel()
	url := pgtxtest.Database(t)
	owner := pgtxtest.Open(t, url)
	b := rowLocks(t, url)
	r, other := request(t), request(t)
	tok := acquire(t, b, r).Token
	innocent := acquire(t, b, other).Token
	release(t, b, tok)
	// As if it were the innocent's transaction that has the first lock.
	exec(t, owner, "update fencegate.row_grants g set holder = o.holder from fencegate.row_grants o where g.resource = $1 and o.resource = $2", r.Resource, other.Resource)
	if err := b.Evict(t.Context(), r.Resource, tok.Number); err != nil {
		t.Fatal(err)
	}
	if err := b.Renew(t.Context(), time.Minute, []fencing.Token{innocent})[0]; err != nil {
		t.Errorf("another hold was ended: %v", err)
	}
	tok = acquire(t, b, next(r)).Token
	exec(t, owner, "update fencegate.row_grants g set holder = o.holder from fencegate.row_grants o where g.resource = $1 and o.resource = $2", r.Resource, other.Resource)
	session := holder(t, owner, r.Resource)
	if err := rowLocks(t, url).Evict(t.Context(), r.Resource, tok.Number); err != nil || holder(t, owner, r.Resource) != session {
		t.Errorf("evict ended a session whose number is not known, %v", err)
	}
	if _, err := owner.Exec(t.Context(), "select fencegate.row_grant($1, $2, '', 60000, 0, (select holder::text from fencegate.row_grants where resource = $1))", r.Resource, fencing.NewGrant()); err != nil {
		t.Fatal(err)
	}
	if st := status(t, b, r.Resource); st.Number != tok.Number {
		t.Errorf("a transaction that has not the row drew number %d", st.Number)
	}
}

func TestRowLockRights(t *testing.T) {
	t.Parallel()
	url := pgtxtest.NewDatabase(t)
	statements := map[string][]string{
		"fencegate_gateway": {
			"select * from fencegate.row_locks", "select * from fencegate.row_grants", "select from fencegate.row_locks for update",
			"insert into fencegate.row_locks values ('a')", "update fencegate.row_grants set number = 1", "delete from fencegate.row_locks",
			"select fencegate.row_held('0', '')",
		},
		"fencegate_app": {
			"select fencegate.row_make('a')", "select fencegate.row_take('a', false)", "select fencegate.row_grant('a', 'b', '', 1, 1, '3')",
			"select * from fencegate.row_renew('{}', '{}', '{}', '{}', 1)", "select fencegate.row_end('a', 1, '')",
			"select * from fencegate.row_status('a', '')", "select * from fencegate.row_list('', '', 1)",
		},
	}
	for role, list := range statements {
		pool := pgtxtest.Open(t, url, pgtxtest.As(role))
		for _, sql := range list {
			_, err := pool.Exec(t.Context(), sql)
			if e, ok := errors.AsType[*pgconn.PgError](err); !ok || e.Code != "42501" {
				t.Errorf("%s: %s: got %v, want permission denied", role, sql, err)
			}
		}
	}
}

func TestNewRowLocks(t *testing.T) {
	t.Parallel()
	url := pgtxtest.NewDatabase(t)
	pool, holders := pgtxtest.Open(t, url), pgtxtest.Open(t, url)
	for name, c := range map[string]struct {
		pool, holders *pgxpool.Pool
		o             *pglock.RowOptions
	}{
		"one pool": {pool, pool, nil}, "no pool": {nil, holders, nil}, "no holders": {pool, nil, nil},
		"timeout": {pool, holders, &pglock.RowOptions{Timeout: time.Microsecond}},
	} {
		if _, err := pglock.NewRowLocks(t.Context(), c.pool, c.holders, c.o); !errors.Is(err, fencing.ErrInvalid) {
			t.Errorf("%s: got %v, want ErrInvalid", name, err)
		}
	}
	exec(t, pool, "update fencegate.meta set version = 4")
	if _, err := pglock.NewRowLocks(t.Context(), pool, holders, nil); !errors.Is(err, pglock.ErrSchema) || !strings.Contains(err.Error(), "version 4 of the schema, want 5") {
		t.Errorf("an older schema: got %v, want ErrSchema with both versions", err)
	}
}
