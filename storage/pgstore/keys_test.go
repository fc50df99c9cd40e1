package pgstore_test

import (
	"context"
	"errors"
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

func sale(t fencing.Token, key string) storage.Commit {
	return storage.Commit{Tokens: []fencing.Token{t}, Ops: []storage.Op{storage.Add(t.Resource, "sold", 1, 0)}, Key: key}
}

func apply(tb testing.TB, b storage.Backend, c storage.Commit) (storage.Result, error) {
	tb.Helper()
	out := b.Apply(tb.Context(), []storage.Commit{c})[0]
	return out.Result, out.Err
}

// TestKeyResolves: the answer to COMMIT is lost. The same key, sent again, tells what became of it,
// also with a later token when the first one is no longer the mark.
func TestKeyResolves(t *testing.T) {
	t.Parallel()
	for _, lose := range []string{"request", "reply", "pooler"} {
		for _, way := range []string{"commit", "update"} {
			t.Run(lose+"/"+way, func(t *testing.T) {
				t.Parallel()
				url := pgtxtest.Database(t)
				direct := backend(t, pgtxtest.Open(t, url), nil)
				tok := raise(t, direct, "r", 1)
				p := &proxy{}
				b := backend(t, pgtxtest.Open(t, url, p.through(t), func(c *pgxpool.Config) {
					c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec // the proxy looks for the word
				}), nil)
				p.set(lose)
				calls := 0
				send := func(b *pgstore.Backend, tok fencing.Token) (replayed bool, err error) {
					if way == "commit" {
						res, err := apply(t, b, sale(tok, "k"))
						return res.Replayed, err
					}
					return b.UpdateOnce(t.Context(), "k", func(tx pgx.Tx) error {
						calls++
						_, err := tx.Exec(t.Context(), `insert into fencegate.records values ('r', 'sold', '1', 1)
							on conflict (resource, key) do update set value = 'twice'`)
						return err
					}, tok)
				}
				_, err := send(b, tok)
				wantOutcome(t, err, fencing.Unknown)
				was := lose != "request"
				if was {
					testenv.Eventually(t, testPatience, "it has taken effect", func() bool { return get(t, direct, "r", "sold") == "1" })
				}
				later := raise(t, direct, "r", 2)
				replayed, err := send(direct, later)
				if err != nil || replayed != was {
					t.Errorf("again: got replayed = %t, %v, want %t", replayed, err, was)
				}
				for _, tok := range []fencing.Token{tok, later, token("r", 9)} {
					if replayed, err := send(direct, tok); err != nil || !replayed {
						t.Errorf("and again with %v: got replayed = %t, %v, want true", tok, replayed, err)
					}
				}
				if got := get(t, direct, "r", "sold"); got != "1" {
					t.Errorf("sold %s, want 1", got)
				}
			})
		}
	}
}

// TestKeyBehindTheLock: a record that is about to be written is waited for, whatever the token: a
// holder must not be told "refused" of what is applied a moment later.
func TestKeyBehindTheLock(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"commit", "batch", "update"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			b, pool := fresh(t)
			tok := raise(t, b, "r", 5)
			again := make(chan storage.Result, 3)
			tokens := []fencing.Token{tok, token("r", 4), token("r", 6)}
			replayed, err := b.UpdateOnce(t.Context(), "k", func(tx pgx.Tx) error {
				for _, tok := range tokens {
					go func() {
						var out storage.Outcome
						c := storage.Commit{Tokens: []fencing.Token{tok}, Key: "k"} // that of an update
						switch way {
						case "commit":
							out = b.Apply(t.Context(), []storage.Commit{c})[0]
						case "batch":
							out = b.Apply(t.Context(), []storage.Commit{c, c})[1]
						case "update":
							out.Result.Replayed, out.Err = b.UpdateOnce(t.Context(), "k", func(pgx.Tx) error { t.Error("fn was called again"); return nil }, tok)
						}
						if out.Err != nil {
							t.Errorf("with %v: got %v, want replayed", tok, out.Err)
						}
						again <- out.Result
					}()
				}
				blocked(t, pool, 1)
				select {
				case res := <-again:
					t.Errorf("got %+v before the record was there", res)
					again <- res
				default:
				}
				return nil
			}, tok)
			if err != nil || replayed {
				t.Errorf("got replayed = %t, %v", replayed, err)
			}
			for range tokens {
				if res := <-again; !res.Replayed {
					t.Error("not replayed")
				}
			}
		})
	}
}

// TestKeyOfAPrunedMark: a record answers though its mark was pruned; a key without one is refused.
func TestKeyOfAPrunedMark(t *testing.T) {
	t.Parallel()
	b, pool := freshOwner(t)
	tok := raise(t, b, "r", 5)
	if _, err := apply(t, b, sale(tok, "k")); err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{"delete from fencegate.marks", "update fencegate.meta set floor = 5"} {
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if res, err := apply(t, b, sale(tok, "k")); err != nil || !res.Replayed {
			t.Errorf("got %+v, %v, want replayed", res, err)
		}
		_, err := apply(t, b, sale(tok, "other"))
		wantStale(t, err, fencing.Retired)
		_, err = b.UpdateOnce(t.Context(), "third", func(pgx.Tx) error { t.Error("fn was called"); return nil }, tok)
		wantStale(t, err, fencing.Retired)
	}
	n, err := backend(t, pool, &pgstore.Options{KeyRetention: time.Millisecond}).Sweep(t.Context())
	if err != nil || n != 1 {
		t.Errorf("sweep: got %d, %v, want 1", n, err)
	}
}

// TestKeyAfterRestart: the records are those of the data, not of an incarnation.
func TestKeyAfterRestart(t *testing.T) {
	t.Parallel()
	server, url := start(t, noSync)
	b := backend(t, pgtxtest.Open(t, url), nil)
	tok := raise(t, b, "r", 5)
	if _, err := apply(t, b, sale(tok, "k")); err != nil {
		t.Fatal(err)
	}
	server.Restart()
	answers(t, b)
	if res, err := apply(t, b, sale(tok, "k")); err != nil || !res.Replayed {
		t.Errorf("got %+v, %v, want replayed", res, err)
	}
	_, err := apply(t, b, sale(tok, "other"))
	wantStale(t, err, fencing.Retired)
	_, err = apply(t, b, sale(tok, ""))
	wantStale(t, err, fencing.Retired)
}

// TestSweepSteps: more records than one step looks at, and a context that ends in between.
func TestSweepSteps(t *testing.T) {
	t.Parallel()
	b, pool := freshOwner(t)
	tok := raise(t, b, "r", 5)
	if _, err := pool.Exec(t.Context(), `insert into fencegate.answers (resource, key, fingerprint, answer, number, created_at)
		select case when i % 2 = 0 then 'r' else 'q' end, 'k' || i, sha256(''), '{}', 4 + i % 3, now() - case when i % 5 = 0 then interval '1 hour' else interval '2 days' end
		from generate_series(1, 3500) as i`); err != nil {
		t.Fatal(err)
	}
	var want int
	if err := pool.QueryRow(t.Context(), "select count(*) from fencegate.answers where created_at < now() - interval '1 day' and not (resource = 'r' and number = $1)", tok.Number).Scan(&want); err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if n, err := b.Sweep(ended); n != 0 || fencing.OutcomeOf(err) != fencing.Failed || !errors.Is(err, context.Canceled) {
		t.Errorf("got %d, %v, want failed", n, err)
	}
	if n, err := b.Sweep(t.Context()); err != nil || n != want {
		t.Errorf("got %d, %v, want %d", n, err, want)
	}
	if n, err := b.Sweep(t.Context()); err != nil || n != 0 {
		t.Errorf("again: got %d, %v, want 0", n, err)
	}
	var left int
	if err := pool.QueryRow(t.Context(), "select count(*) from fencegate.answers").Scan(&left); err != nil || left != 3500-want {
		t.Errorf("got %d left, %v, want %d", left, err, 3500-want)
	}
}
