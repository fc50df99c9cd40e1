package pgguard_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/pgtx"
	"github.com/fencegate/fencegate/storage/pgguard"
)

const (
	update1 = "update coupons set n = n + 1 where id = '1'"
	update2 = "update coupons set n = n + 1 where id = '2'"
	enter   = "select fencegate.enter($1, $2)"
)

// TestTokenOfTheTransaction: a token lasts for the transaction that entered, and no longer.
func TestTokenOfTheTransaction(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.app(t)
	tok := w.raise(t, "coupon:1", 34)
	two := w.raise(t, "coupon:2", 7)
	do := func(tx pgx.Tx, sql string, args ...any) error {
		_, err := tx.Exec(t.Context(), sql, args...)
		return err
	}
	enterTx := func(tx pgx.Tx, tok fencing.Token) error { return do(tx, enter, tok.Resource, tok.Text()) }
	for name, fn := range map[string]struct {
		do   func(tx pgx.Tx) error
		want string
	}{
		"entered in a savepoint that was rolled back": {func(tx pgx.Tx) error {
			return errors.Join(do(tx, "savepoint a"), enterTx(tx, tok), do(tx, "rollback to a"), do(tx, update1))
		}, pgguard.CodeNoToken},
		"entered and written in a savepoint that was rolled back": {func(tx pgx.Tx) error {
			return errors.Join(do(tx, "savepoint a"), enterTx(tx, tok), do(tx, update1), do(tx, "rollback to a"), do(tx, update1))
		}, pgguard.CodeNoToken},
		"entered in a savepoint that was released": {func(tx pgx.Tx) error {
			return errors.Join(do(tx, "savepoint a"), enterTx(tx, tok), do(tx, "release a"), do(tx, update1))
		}, ""},
		"written in a savepoint": {func(tx pgx.Tx) error {
			return errors.Join(enterTx(tx, tok), do(tx, "savepoint a"), do(tx, update1), do(tx, "rollback to a"), do(tx, update1))
		}, ""},
		"entered twice": {func(tx pgx.Tx) error {
			return errors.Join(enterTx(tx, tok), enterTx(tx, two), enterTx(tx, tok), do(tx, update1), do(tx, update2))
		}, ""},
		"entered after what was set by hand": {func(tx pgx.Tx) error {
			return errors.Join(set(t, tx, tok.Resource, "1.x"), enterTx(tx, tok), do(tx, update1))
		}, ""},
		"entered, then set by hand": {func(tx pgx.Tx) error {
			return errors.Join(enterTx(tx, tok), do(tx, "set fencegate.tokens = ''"), do(tx, update1))
		}, pgguard.CodeNoToken},
		"entered after the write": {func(tx pgx.Tx) error {
			return errors.Join(do(tx, update1), enterTx(tx, tok))
		}, pgguard.CodeNoToken},
		"several": {func(tx pgx.Tx) error {
			return errors.Join(do(tx, "select fencegate.enter_all($1, $2)",
				[]string{two.Resource, tok.Resource}, []string{two.Text(), tok.Text()}), do(tx, update1), do(tx, update2))
		}, ""},
		"several, one stale": {func(tx pgx.Tx) error {
			return do(tx, "select fencegate.enter_all($1, $2)", []string{two.Resource, tok.Resource}, []string{"6.AAAAAAAAAAAAAAAAAAAAAAAAAA", tok.Text()})
		}, pgguard.CodeSuperseded},
		"several, one too few": {func(tx pgx.Tx) error {
			return do(tx, "select fencegate.enter_all($1, $2)", []string{two.Resource, tok.Resource}, []string{tok.Text()})
		}, pgguard.CodeShape},
		"several, one twice": {func(tx pgx.Tx) error {
			return do(tx, "select fencegate.enter_all($1, $2)", []string{tok.Resource, tok.Resource}, []string{tok.Text(), tok.Text()})
		}, pgguard.CodeShape},
		"none": {func(tx pgx.Tx) error {
			return do(tx, "select fencegate.enter_all($1, $2)", []string{}, []string{})
		}, pgguard.CodeShape},
		"nothing at all": {func(tx pgx.Tx) error { return do(tx, enter, nil, nil) }, pgguard.CodeShape},
	} {
		err := in(t, c, pgx.ReadCommitted, fn.do)
		if j, ok := err.(interface{ Unwrap() []error }); ok { // its own join: what came first counts
			err = j.Unwrap()[0]
		}
		if fn.want == "" {
			wantNil(t, name, err)
			continue
		}
		wantCode(t, name, err, fn.want)
	}

	// Without a transaction each statement is one, and so is a batch as a whole.
	if _, err := c.Exec(t.Context(), enter, tok.Resource, tok.Text()); err != nil {
		t.Fatal(err)
	}
	_, err := c.Exec(t.Context(), update1)
	wantCode(t, "entered in a statement of its own", err, pgguard.CodeNoToken)
	wantNil(t, "a transaction", fenced(t, c, []fencing.Token{tok}, update1))
	_, err = c.Exec(t.Context(), update1)
	wantCode(t, "after a transaction that entered", err, pgguard.CodeNoToken)
	if _, err := c.Exec(t.Context(), "set fencegate.tokens = ',coupon:1="+tok.Text()+",'"); err != nil {
		t.Fatal(err)
	}
	wantNil(t, "retire", w.fence.Retire(t.Context(), tok))
	_, err = c.Exec(t.Context(), update1)
	wantCode(t, "set for the session, and released", err, pgguard.CodeRetired)
}

// TestMessages: what is refused is said with the resource and the numbers, and never with a secret.
func TestMessages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.app(t)
	w.raise(t, "coupon:1", 33)
	tok := w.raise(t, "coupon:1", 34)
	const grant = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	for _, tc := range []struct{ resource, text, code, message string }{
		{"coupon:1", "33." + grant, pgguard.CodeSuperseded, "fencegate: token 33 of coupon:1 refused: superseded (the mark is 34)"},
		{"coupon:1", "34." + grant, pgguard.CodeDuplicate, "fencegate: token 34 of coupon:1 refused: duplicate (the mark is 34)"},
		{"coupon:1", "35." + grant, pgguard.CodeUngranted, "fencegate: token 35 of coupon:1 refused: ungranted (the mark is 34)"},
		{"coupon:8", "1." + grant, pgguard.CodeUngranted, "fencegate: token 1 of coupon:8 refused: ungranted (the mark is 0)"},
		{"coupon:1", "34", pgguard.CodeGrantRequired, "fencegate: token 34 of coupon:1 refused: grant-required (the mark is 34)"},
		{tok.Text(), "coupon:1", pgguard.CodeShape, "fencegate: want the name of a resource and its token, like coupon:42 and 34.<grant id>"},
		{"coupon:1", "9007199254740992." + grant, pgguard.CodeShape, "fencegate: want the name of a resource and its token, like coupon:42 and 34.<grant id>"},
		{"coupon 1", "34." + grant, pgguard.CodeShape, "fencegate: want the name of a resource and its token, like coupon:42 and 34.<grant id>"},
		{"coupon:1", "034." + grant, pgguard.CodeShape, "fencegate: want the name of a resource and its token, like coupon:42 and 34.<grant id>"},
	} {
		_, err := c.Exec(t.Context(), enter, tc.resource, tc.text)
		wantCode(t, tc.message, err, tc.code)
		if e := pgError(err); e.Message != tc.message || e.Detail != "" || e.Hint == "" {
			t.Errorf("got %q, detail %q, hint %q, want %q, and a hint", e.Message, e.Detail, e.Hint, tc.message)
		}
	}
	_, err := c.Exec(t.Context(), update1)
	if e := pgError(err); e.SchemaName != "public" || e.TableName != "coupons" || e.Message != "fencegate: UPDATE on public.coupons: this transaction has no token of coupon:1" {
		t.Errorf("got %+v, want the table", e)
	}
	for _, id := range []string{"a b", "ü", "x,coupon:1=34." + grant, ""} {
		_, err := c.Exec(t.Context(), "insert into coupons values ($1)", id)
		want := pgguard.CodeNoResource
		if id == "" {
			want = pgguard.CodeNoToken // of coupon:
		}
		wantCode(t, id, err, want)
	}
	w.exec(t, "create table nullable (r text)", "insert into nullable values (null)")
	w.grant(t, "nullable")
	w.protect(t, pgguard.Guard{Table: "nullable", Column: "r"})
	for _, sql := range []string{"insert into nullable values (null)", "update nullable set r = 'coupon:1'", "delete from nullable"} {
		wantCode(t, sql, fenced(t, c, []fencing.Token{tok}, sql), pgguard.CodeNoResource)
	}
	wantCode(t, "to null", fenced(t, c, []fencing.Token{tok}, "insert into nullable values ('coupon:1')", "update nullable set r = null"), pgguard.CodeNoResource)
}

// TestIsolation: at the levels with one snapshot, one that is too old is failed and not refused,
// and the next try passes.
func TestIsolation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			c := w.app(t)
			id := map[pgx.TxIsoLevel]string{pgx.RepeatableRead: "3", pgx.Serializable: "4"}[level]
			resource, update := "coupon:"+id, "update coupons set n = n + 1 where id = '"+id+"'"
			// The snapshot is taken, then something happens, then it enters and writes.
			try := func(between func() fencing.Token) error {
				return in(t, c, level, func(tx pgx.Tx) error {
					if _, err := tx.Exec(t.Context(), "select * from coupons"); err != nil {
						return err
					}
					tok := between()
					if err := pgguard.Enter(t.Context(), tx, tok); err != nil {
						return err
					}
					_, err := tx.Exec(t.Context(), update)
					return err
				})
			}
			first := w.raise(t, resource, 33)
			same := func(tok fencing.Token) func() fencing.Token { return func() fencing.Token { return tok } }
			wantNil(t, "the mark", try(same(first)))
			failed := func(what string, err error) {
				t.Helper()
				if !pgtx.HasCode(err, pgtx.SerializationFailure) || fencing.OutcomeOf(pgguard.Explain(err)) != fencing.Failed {
					t.Errorf("%s: got %v, want 40001", what, err)
				}
			}
			var second fencing.Token
			failed("a mark that is below the token", try(func() fencing.Token {
				second = w.raise(t, resource, 34)
				return second
			}))
			wantNil(t, "the next try", try(same(second)))
			failed("no mark", try(func() fencing.Token { return w.raise(t, resource+"-new", 1) }))
			failed("a mark that was raised since", try(func() fencing.Token {
				w.raise(t, resource, 35)
				return second
			}))
			wantStale(t, try(same(second)), fencing.Superseded)
			third := w.raise(t, resource, 36)
			failed("a mark that was retired since", try(func() fencing.Token {
				wantNil(t, "retire", w.fence.Retire(t.Context(), third))
				return third
			}))
			wantStale(t, try(same(third)), fencing.Retired)
			wantStale(t, try(same(fencing.Token{Resource: resource, Number: 36, Grant: fencing.NewGrant()})), fencing.Retired)
			// A row that was locked by another transaction of the token, which changed nothing.
			fourth := w.raise(t, resource, 37)
			wantNil(t, "another transaction meanwhile", try(func() fencing.Token {
				wantNil(t, "it", fenced(t, w.app(t), []fencing.Token{fourth}))
				return fourth
			}))
			// By hand, without enter, a raise in between is found by the guard.
			err := in(t, c, level, func(tx pgx.Tx) error {
				if err := set(t, tx, resource, fourth.Text()); err != nil {
					return err
				}
				if _, err := tx.Exec(t.Context(), "select * from coupons"); err != nil {
					return err
				}
				w.raise(t, resource, 38)
				_, err := tx.Exec(t.Context(), update)
				return err
			})
			failed("by hand", err)
		})
	}
}

func wantStale(tb testing.TB, err error, reason fencing.Reason) {
	tb.Helper()
	if got, ok := errors.AsType[*fencing.StaleError](err); !ok || got.Reason != reason {
		tb.Errorf("got %v, want a *StaleError because of %q", err, reason)
	}
}

// TestLocks: from enter on, and from the first write of one who did not enter, no raise gets in
// before the transaction ends; and who waits for a raise is refused behind it.
func TestLocks(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(*testing.T, pgx.Tx, fencing.Token) error{
		"enter": func(t *testing.T, tx pgx.Tx, tok fencing.Token) error { return pgguard.Enter(t.Context(), tx, tok) },
		"by hand": func(t *testing.T, tx pgx.Tx, tok fencing.Token) error {
			return errors.Join(set(t, tx, tok.Resource, tok.Text()), run(t, tx, update1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			c := w.app(t)
			tok := w.raise(t, "coupon:1", 33)
			raised := make(chan error, 1)
			err := in(t, c, pgx.ReadCommitted, func(tx pgx.Tx) error {
				if err := begin(t, tx, tok); err != nil {
					return err
				}
				go func() {
					raised <- w.fence.Raise(t.Context(), fencing.Token{Resource: "coupon:1", Number: 34, Grant: fencing.NewGrant()})
				}()
				w.blocked(t, 1)
				return run(t, tx, update1)
			})
			wantNil(t, "the holder", err)
			wantNil(t, "the raise", <-raised)

			// The other way round: the raise is first, and is committed while the holder waits.
			tok = w.raise(t, "coupon:1", 35)
			raise, err := w.admin.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = raise.Rollback(context.WithoutCancel(t.Context())) }()
			wantNil(t, "the raise", run(t, raise, "select fencegate.raise('coupon:1', 36, '"+fencing.NewGrant()+"')"))
			entered := make(chan error, 1)
			go func() {
				entered <- in(t, c, pgx.ReadCommitted, func(tx pgx.Tx) error { return begin(t, tx, tok) })
			}()
			w.blocked(t, 1)
			wantNil(t, "commit", raise.Commit(t.Context()))
			wantStale(t, pgguard.Explain(unjoin(<-entered)), fencing.Superseded)
		})
	}
}

// unjoin returns the one error of joined ones.
func unjoin(err error) error {
	if j, ok := err.(interface{ Unwrap() []error }); ok && len(j.Unwrap()) == 1 {
		return j.Unwrap()[0]
	}
	return err
}

// TestSettings: what enter sets is for the transaction, and never takes away a stricter setting.
func TestSettings(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(t, "update fencegate.meta set max_idle_ms = 3000")
	c := w.app(t)
	tok := w.raise(t, "coupon:1", 1)
	for _, s := range []struct{ name, have, want string }{
		{"idle_in_transaction_session_timeout", "0", "3s"},
		{"idle_in_transaction_session_timeout", "1500ms", "1500ms"},
		{"idle_in_transaction_session_timeout", "3s", "3s"},
		{"idle_in_transaction_session_timeout", "1d", "3s"},
		{"idle_in_transaction_session_timeout", "2min", "3s"},
		{"synchronous_commit", "off", "on"},
		{"synchronous_commit", "local", "on"},
		{"synchronous_commit", "remote_write", "on"},
		{"synchronous_commit", "on", "on"},
		{"synchronous_commit", "remote_apply", "remote_apply"},
		{"search_path", `pg_catalog, "$user"`, `pg_catalog, "$user"`},
	} {
		if _, err := c.Exec(t.Context(), "select set_config($1, $2, false)", s.name, s.have); err != nil {
			t.Fatal(err)
		}
		err := in(t, c, pgx.ReadCommitted, func(tx pgx.Tx) error {
			err := pgguard.Enter(t.Context(), tx, tok)
			if got := value[string](t, tx, "select current_setting($1)", s.name); got != s.want {
				t.Errorf("%s = %s: got %s in the transaction, want %s", s.name, s.have, got, s.want)
			}
			return err
		})
		wantNil(t, s.name, err)
		if got := value[string](t, c, "select current_setting($1)", s.name); got != s.have {
			t.Errorf("%s: got %s after the transaction, want %s", s.name, got, s.have)
		}
	}
	if _, err := w.admin.Exec(t.Context(), "update fencegate.meta set max_idle_ms = 0"); !pgtx.HasCode(err, "23514") {
		t.Errorf("no idle time at all: got %v, want that it is refused", err)
	}
}
