package pgstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/pgtx/pgtxtest"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/storage"
	"github.com/fencegate/fencegate/storage/pgstore"
)

func putOf(t fencing.Token, key, value string) storage.Commit {
	return storage.Commit{Tokens: []fencing.Token{t}, Ops: []storage.Op{storage.Put(t.Resource, key, []byte(value))}}
}

// waitingSQL counts the sessions of this database that wait for a lock; other tests have others on the same server.
const waitingSQL = "select count(distinct pid) from pg_locks join pg_stat_activity using (pid) where not granted and datname = current_database()"

// TestBusyMark: a mark that somebody else has locked holds up its own commits, and not those
// that came in one batch with them. It does not become one connection for each that waits.
func TestBusyMark(t *testing.T) {
	t.Parallel()
	b, pool := freshOwner(t)
	slow, free := raise(t, b, "slow", 1), raise(t, b, "free", 1)
	stale := token("slow", 1)
	tx := owner(t, pool, "select from fencegate.marks where resource = 'slow' for no key update")
	const n = 40
	waiting := make(chan error, n)
	for i := range n {
		go func() { waiting <- put(t.Context(), b, slow, fmt.Sprintf("k%d", i), "v") }()
	}
	blocked(t, pool, 1)
	for i := range n {
		key := fmt.Sprintf("k%d", i)
		if err := put(t.Context(), b, free, key, "v"); err != nil {
			t.Fatalf("a neighbour: %v", err)
		}
		wantStale(t, put(t.Context(), b, stale, key, "v"), fencing.Duplicate) // that needs no lock
	}
	out := b.Apply(t.Context(), []storage.Commit{putOf(stale, "x", "v"), putOf(free, "x", "v"), putOf(free, "y", "v")})
	wantStale(t, out[0].Err, fencing.Duplicate)
	if err := errors.Join(out[1].Err, out[2].Err); err != nil {
		t.Errorf("neighbours of a stale one: %v", err)
	}
	var held int
	if err := pool.QueryRow(t.Context(), waitingSQL).Scan(&held); err != nil || held > 2 {
		t.Errorf("%d sessions wait, %v, want one for all", held, err)
	}
	select {
	case err := <-waiting:
		t.Fatalf("a commit came through a locked mark: %v", err)
	default:
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range n {
		if err := <-waiting; err != nil {
			t.Errorf("who waited: %v", err)
		}
	}
}

// TestBusyPair: so it is with a commit of two resources, one of which is locked.
func TestBusyPair(t *testing.T) {
	t.Parallel()
	b, pool := freshOwner(t)
	slow, free := raise(t, b, "slow", 1), raise(t, b, "free", 1)
	tx := owner(t, pool, "select from fencegate.marks where resource = 'slow' for no key update")
	both := make(chan error, 1)
	go func() {
		both <- b.Apply(t.Context(), []storage.Commit{{
			Tokens: []fencing.Token{free, slow}, Ops: []storage.Op{storage.Put("free", "a", nil), storage.Put("slow", "a", nil)},
		}})[0].Err
	}()
	blocked(t, pool, 1)
	if got := get(t, b, "free", "a"); got != "(none)" {
		t.Errorf("half a commit is there: %q", got)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-both; err != nil {
		t.Error(err)
	}
}

// TestPoison: a commit that the server refuses, and one with a value that would hold everybody up,
// do not harm their neighbours.
func TestPoison(t *testing.T) {
	t.Parallel()
	pool := pgtxtest.Open(t, pgtxtest.NewDatabase(t))
	b := backend(t, pool, nil)
	if _, err := pool.Exec(t.Context(), "alter table fencegate.records add check (value <> 'poison')"); err != nil {
		t.Fatal(err)
	}
	tok := raise(t, b, "r", 1)
	huge := string(bytes.Repeat([]byte("x"), 8<<20))
	var batch []storage.Commit
	for i := range 20 {
		value := "v"
		switch i % 5 {
		case 1:
			value = "poison"
		case 2:
			if i < 10 {
				value = huge
			}
		}
		batch = append(batch, putOf(tok, fmt.Sprintf("k%d", i), value))
	}
	check := func(i int, err error) {
		t.Helper()
		if i%5 == 1 {
			wantOutcome(t, err, fencing.Failed)
		} else if err != nil {
			t.Errorf("commit %d: %v", i, err)
		}
	}
	for i, out := range b.Apply(t.Context(), batch) {
		check(i, out.Err)
	}
	var wg sync.WaitGroup
	for i, c := range batch {
		wg.Go(func() { check(i, b.Apply(t.Context(), []storage.Commit{c})[0].Err) })
	}
	wg.Wait()
	if got := get(t, b, "r", "k2"); got != huge {
		t.Errorf("got %d bytes, want %d", len(got), len(huge))
	}
}

// TestBatchLost: the connection dies around the COMMIT of a batch of many. Whoever's answer rests
// on it is told that it is unknown, and nobody else.
func TestBatchLost(t *testing.T) {
	t.Parallel()
	for _, lose := range []string{"request", "reply", "stall", "pooler"} {
		t.Run(lose, func(t *testing.T) {
			t.Parallel()
			url := pgtxtest.Database(t)
			direct := backend(t, pgtxtest.Open(t, url), nil)
			tok, other := raise(t, direct, "r", 1), raise(t, direct, "s", 1)
			old := token("r", 1)
			p := &proxy{}
			b := backend(t, pgtxtest.Open(t, url, p.through(t), func(c *pgxpool.Config) {
				c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec // the proxy looks for the word
			}), nil)
			p.set(lose)
			var batch []storage.Commit
			for i := range 10 {
				batch = append(batch, putOf([]fencing.Token{tok, other}[i%2], strconv.Itoa(i), "v"))
			}
			batch[8].Key, batch[9].Key = "k8", "k9"
			batch = append(batch, putOf(old, "stale", "v"), batch[8])
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			result := make(chan []storage.Outcome, 1)
			go func() { result <- b.Apply(ctx, batch) }()
			<-p.lost
			if lose != "request" {
				testenv.Eventually(t, testPatience, "it has taken effect", func() bool { return get(t, direct, "r", "0") == "v" })
			}
			if lose == "stall" {
				cancel()
			}
			out := <-result
			for i := range 10 {
				wantOutcome(t, out[i].Err, fencing.Unknown)
			}
			wantOutcome(t, out[11].Err, fencing.Unknown) // the same key: its answer was that of its neighbour
			if lose != "stall" {                         // then nobody has an answer
				wantStale(t, out[10].Err, fencing.Duplicate)
			}
			want := "v"
			if lose == "request" {
				want = "(none)"
			}
			if got := get(t, direct, "s", "9"); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

// TestBatchBroken: a commit that was refused because of what its neighbour wrote is carried out
// again when that was not written.
func TestBatchBroken(t *testing.T) {
	t.Parallel()
	pool := pgtxtest.Open(t, pgtxtest.NewDatabase(t))
	b := backend(t, pool, nil)
	// The first transaction that writes loses its connection; whoever comes later does not.
	for _, sql := range []string{
		"create sequence public.times",
		`create function public.cut() returns trigger language plpgsql as $$ begin
			if nextval('public.times') = 1 then perform pg_terminate_backend(pg_backend_pid()); end if; return null; end $$`,
		"create trigger cut after insert on fencegate.records for each statement execute function public.cut()",
	} {
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	tok := raise(t, b, "r", 1)
	add := storage.Commit{Tokens: []fencing.Token{tok}, Ops: []storage.Op{storage.Add("r", "n", 1, 0)}}
	need := storage.Commit{Tokens: add.Tokens, Ops: []storage.Op{storage.Require("r", "n", 0)}} // refused because of its neighbour
	out := b.Apply(t.Context(), []storage.Commit{add, need, add, add})
	for _, i := range []int{0, 2, 3} { // COMMIT was on its way when the connection died
		wantOutcome(t, out[i].Err, fencing.Unknown)
	}
	if out[1].Err != nil || get(t, b, "r", "n") != "(none)" {
		t.Errorf("got %v, want applied: what it was refused for never happened", out[1].Err)
	}
}

// TestSeveralProcesses: what several backends commit in any sets of resources, together and alone,
// is all there, and no two of them ever wait for each other.
func TestSeveralProcesses(t *testing.T) {
	t.Parallel()
	url := pgtxtest.NewDatabase(t)
	pool := pgtxtest.Open(t, url)
	const processes, clients, resources = 3, 8, 6
	var bs []*pgstore.Backend
	for range processes {
		bs = append(bs, backend(t, pgtxtest.Open(t, url, func(c *pgxpool.Config) { c.MaxConns = 6 }), nil))
	}
	var tokens []fencing.Token
	for i := range resources {
		tokens = append(tokens, raise(t, bs[0], fmt.Sprintf("r%d", i), 1))
	}
	var mu sync.Mutex
	want := make([]int, resources)
	var wg sync.WaitGroup
	end := time.Now().Add(2 * time.Second)
	for i := range processes * clients {
		wg.Go(func() {
			for n := 0; time.Now().Before(end); n++ {
				set := rand.Perm(resources)[:1+rand.IntN(3)]
				c := storage.Commit{}
				for _, r := range set {
					c.Tokens = append(c.Tokens, tokens[r])
					c.Ops = append(c.Ops, storage.Add(tokens[r].Resource, "n", 1, 0))
				}
				if n%3 == 0 {
					c.Key = fmt.Sprintf("%d-%d", i, n)
				}
				if err := commit(t, bs[i%processes], c); err != nil {
					t.Errorf("commit: %v", err)
					return
				}
				mu.Lock()
				for _, r := range set {
					want[r]++
				}
				mu.Unlock()
			}
		})
	}
	wg.Add(1)
	go func() { // what removes old keys beside them is in nobody's way
		defer wg.Done()
		short := backend(t, pool, &pgstore.Options{KeyRetention: time.Millisecond})
		for time.Now().Before(end) {
			if _, err := short.Sweep(t.Context()); err != nil {
				t.Errorf("sweep: %v", err)
			}
		}
	}()
	wg.Wait()
	for i, n := range want {
		if got := get(t, bs[0], fmt.Sprintf("r%d", i), "n"); got != strconv.Itoa(n) {
			t.Errorf("r%d: got %s, want %d", i, got, n)
		}
	}
	var deadlocks int
	if err := pool.QueryRow(t.Context(), "select deadlocks from pg_stat_database where datname = current_database()").Scan(&deadlocks); err != nil || deadlocks != 0 {
		t.Errorf("got %d deadlocks, %v, want none", deadlocks, err)
	}
	t.Logf("%v commits", want)
}

// commit commits as a store in front would: tokens sorted.
func commit(tb testing.TB, b *pgstore.Backend, c storage.Commit) error {
	s, err := storage.New(b, nil)
	if err != nil {
		return err
	}
	_, err = s.Commit(tb.Context(), c)
	return err
}

// TestOneSeesTheNewest: a commit that is one statement is judged by the record as it is when it
// is written, not as it was when the statement began.
func TestOneSeesTheNewest(t *testing.T) {
	t.Parallel()
	for name, op := range map[string]storage.Op{
		"put": storage.Put("r", "k", []byte("9")), "add": storage.Add("r", "k", 2, 0), "below": storage.Add("r", "k", -5, 0),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, pool := freshOwner(t)
			tok := raise(t, b, "r", 1)
			if err := put(t.Context(), b, tok, "k", "10"); err != nil {
				t.Fatal(err)
			}
			tx := owner(t, pool, "update fencegate.records set value = '4', version = version + 5") // past the fence
			result := make(chan storage.Outcome, 1)
			go func() {
				result <- b.Apply(t.Context(), []storage.Commit{{Tokens: []fencing.Token{tok}, Ops: []storage.Op{op}}})[0]
			}()
			blocked(t, pool, 1)
			if err := tx.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			out := <-result
			if name == "below" {
				if refused, ok := errors.AsType[*storage.RefusedError](out.Err); !ok || refused.Have != 4 {
					t.Errorf("got %v, want below minimum, from 4", out.Err)
				}
				return
			}
			if out.Err != nil || out.Result.Ops[0].Version != 7 || out.Result.Ops[0].Counter != map[string]int64{"add": 6}[name] {
				t.Errorf("got %+v, %v, want version 7", out.Result, out.Err)
			}
		})
	}
}

// TestOneSettings looks at what a commit that is one statement runs with, by what the session has.
func TestOneSettings(t *testing.T) {
	t.Parallel()
	url := pgtxtest.NewDatabase(t)
	admin := pgtxtest.Open(t, url)
	for _, sql := range []string{
		"create table public.seen (resource text, sync text, messages text)", "grant all on public.seen to public",
		`create function public.look() returns trigger language plpgsql as $$ begin
			insert into public.seen values (new.resource, current_setting('synchronous_commit'), current_setting('client_min_messages')); return new; end $$`,
		"create trigger look before update on fencegate.records for each row execute function public.look()",
	} {
		if _, err := admin.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	for have, want := range map[string]string{"off": "on", "local": "on", "on": "on", "remote_write": "on", "remote_apply": "remote_apply"} {
		b := backend(t, pgtxtest.Open(t, url, session(map[string]string{"synchronous_commit": have, "client_min_messages": "error"})), nil)
		tok := raise(t, b, "r-"+have, 1)
		for _, op := range []storage.Op{storage.Put(tok.Resource, "k", []byte("1")), storage.Put(tok.Resource, "k", []byte("2")), storage.Add(tok.Resource, "k", 1, 0)} {
			if err := b.Apply(t.Context(), []storage.Commit{{Tokens: []fencing.Token{tok}, Ops: []storage.Op{op}}})[0].Err; err != nil {
				t.Fatal(err)
			}
		}
		var n int
		if err := admin.QueryRow(t.Context(), "select count(*) from public.seen where resource = $1 and sync = $2 and messages = 'warning'", tok.Resource, want).Scan(&n); err != nil || n != 2 {
			t.Errorf("synchronous_commit %s: %d of 2 updates ran with %s and warnings, %v", have, n, want, err)
		}
	}
}

// TestIncarnationInline: what is written out where it counts is what the function says.
func TestIncarnationInline(t *testing.T) {
	t.Parallel()
	_, pool := fresh(t)
	var same bool
	if err := pool.QueryRow(t.Context(), "select "+pgstore.Inline()+" = "+pgstore.Called).Scan(&same); err != nil || !same || pgstore.Inline() == pgstore.Called {
		t.Errorf("same = %t, %v, want true", same, err)
	}
}

// TestOneHoldsTheMark: between the check and the end of a commit that is one statement, no raise
// comes in.
func TestOneHoldsTheMark(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		op   storage.Op
		hold string // keeps the statement from its end
	}{
		"put": {storage.Put("r", "k", []byte("9")), "select from fencegate.records for update"},
		"new": {storage.Put("r", "new", []byte("9")), "insert into fencegate.records values ('r', 'new', '', 1)"},
		"add": {storage.Add("r", "k", 2, 0), "select from fencegate.records for update"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, pool := freshOwner(t)
			tok := raise(t, b, "r", 1)
			if err := put(t.Context(), b, tok, "k", "10"); err != nil {
				t.Fatal(err)
			}
			tx := owner(t, pool, c.hold)
			written, raised := make(chan error, 1), make(chan error, 1)
			go func() {
				written <- b.Apply(t.Context(), []storage.Commit{{Tokens: []fencing.Token{tok}, Ops: []storage.Op{c.op}}})[0].Err
			}()
			blocked(t, pool, 1)
			go func() { raised <- b.Raise(t.Context(), token("r", 2)) }()
			testenv.Eventually(t, testPatience, "the raise waits", func() bool {
				var n int
				select {
				case err := <-raised:
					t.Fatalf("the raise came in: %v", err)
				default:
				}
				err := pool.QueryRow(t.Context(), waitingSQL).Scan(&n)
				return err == nil && n == 2
			})
			if err := tx.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(<-written, <-raised); err != nil {
				t.Error(err)
			}
		})
	}
}
