package pgguard_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/fencing/fencingtest"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/storage/pgguard"
)

// TestEnter enters by each of the helpers, with one token and with several.
func TestEnter(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.app(t)
	db, err := sql.Open("pgx", w.urlOf(w.role))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	both := []string{update1, update2}
	for name, do := range map[string]func(statements []string, tokens ...fencing.Token) error{ //nolint:paralleltest // they share rows
		"pgx": func(statements []string, tokens ...fencing.Token) error {
			return in(t, c, pgx.ReadCommitted, func(tx pgx.Tx) error {
				if err := pgguard.Enter(t.Context(), tx, tokens...); err != nil {
					return err
				}
				return pgguard.Explain(run(t, tx, statements...))
			})
		},
		"database/sql": func(statements []string, tokens ...fencing.Token) error {
			tx, err := db.BeginTx(t.Context(), nil)
			if err != nil {
				return err
			}
			defer tx.Rollback() //nolint:errcheck // after a commit it does nothing
			if err := pgguard.EnterSQL(t.Context(), tx, tokens...); err != nil {
				return err
			}
			for _, s := range statements {
				if _, err := tx.ExecContext(t.Context(), s); err != nil {
					return pgguard.Explain(err)
				}
			}
			return pgguard.Explain(tx.Commit())
		},
		"batch": func(statements []string, tokens ...fencing.Token) error {
			b := &pgx.Batch{}
			if err := pgguard.Queue(b, tokens...); err != nil {
				return err
			}
			for _, s := range statements {
				b.Queue(s)
			}
			return pgguard.Explain(c.SendBatch(t.Context(), b).Close(), tokens...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			old := w.raise(t, "coupon:1", value[int64](t, w.admin, "select coalesce(max(number), 0) + 1 from fencegate.marks"))
			one := w.raise(t, "coupon:1", old.Number+1)
			two := w.raise(t, "coupon:2", old.Number+1)
			plain := one
			plain.Grant = ""
			wantNil(t, "one", do(both[:1], one))
			wantNil(t, "several", do(both, two, one))
			err := do(both, two, old)
			wantStale(t, err, fencing.Superseded)
			if e, ok := errors.AsType[*fencing.StaleError](err); !ok || e.Token != old || e.Highest != one.Number {
				t.Errorf("got %v, want the token that was refused, and %d", err, one.Number)
			}
			wantStale(t, do(both[:1], plain), fencing.GrantRequired)
			err = do(both, one)
			if e, ok := errors.AsType[*pgguard.RefusedError](err); !ok || e.Code != pgguard.CodeNoToken || fencing.OutcomeOf(err) != fencing.Refused {
				t.Errorf("a write without its token: got %v, want a *RefusedError", err)
			}
			for what, tokens := range map[string][]fencing.Token{
				"none": {}, "two for one": {one, old}, "no resource": {{Number: 1, Grant: one.Grant}}, "no number": {{Resource: "r", Grant: one.Grant}},
			} {
				if err := do(nil, tokens...); !errors.Is(err, fencing.ErrInvalid) {
					t.Errorf("%s: got %v, want ErrInvalid", what, err)
				}
			}
		})
	}
	if err := pgguard.EnterSQL(t.Context(), db, w.raise(t, "coupon:9", 1)); !errors.Is(err, fencing.ErrInvalid) {
		t.Errorf("a *sql.DB: got %v, want ErrInvalid", err)
	}
	simple := connect(t, w.urlOf(w.role)+"&default_query_exec_mode=simple_protocol")
	err = in(t, simple, pgx.ReadCommitted, func(tx pgx.Tx) error { return pgguard.Enter(t.Context(), tx, w.raise(t, "coupon:9", 2)) })
	if !errors.Is(err, fencing.ErrInvalid) {
		t.Errorf("the simple protocol: got %v, want ErrInvalid", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err = in(t, c, pgx.ReadCommitted, func(tx pgx.Tx) error {
		cancel()
		return pgguard.Enter(ctx, tx, w.raise(t, "coupon:9", 3))
	})
	if fencing.OutcomeOf(err) != fencing.Failed || !errors.Is(err, context.Canceled) {
		t.Errorf("a context that ended: got %v, want failed", err)
	}
}

// otherDriver is an error as drivers make it that are not pgx.
type otherDriver struct{ code, message string }

func (e otherDriver) Error() string    { return "pq: " + e.message }
func (e otherDriver) SQLState() string { return e.code }

// fatalDriver and panicDriver show how grave the error is, as lib/pq does.
type fatalDriver struct{ otherDriver }

func (fatalDriver) Fatal() bool { return true }

type panicDriver struct{ otherDriver }

func (panicDriver) Get(k byte) string { return map[byte]string{'S': "PANIC"}[k] }

// TestExplain is the table of errors and what they become.
func TestExplain(t *testing.T) {
	t.Parallel()
	const message = "fencegate: token 33 of coupon:42 refused: superseded (the mark is 34)"
	for _, from := range []func(code string) error{
		func(code string) error {
			return fmt.Errorf("wrapped: %w", &pgconn.PgError{SeverityUnlocalized: "ERROR", Severity: "ERROR", Code: code, Message: message, Detail: "mine"})
		},
		func(code string) error { return fmt.Errorf("wrapped: %w", otherDriver{code, message}) },
	} {
		for code, reason := range map[string]fencing.Reason{
			"ZF101": fencing.Superseded, "ZF102": fencing.Retired, "ZF103": fencing.Duplicate, "ZF104": fencing.Ungranted, "ZF105": fencing.GrantRequired,
		} {
			err := pgguard.Explain(from(code))
			wantStale(t, err, reason)
			if e, ok := errors.AsType[*fencing.StaleError](err); !ok || e.Token != (fencing.Token{Resource: "coupon:42", Number: 33}) || e.Highest != 34 {
				t.Errorf("%s: got %+v, want coupon:42, 33 and 34", code, e)
			}
		}
		for code, want := range map[string]fencing.Outcome{
			"40001": fencing.Failed, "40P01": fencing.Failed, "55P03": fencing.Failed, "23505": fencing.Failed,
			"ZF201": fencing.Refused, "ZF202": fencing.Refused, "ZF203": fencing.Refused, "ZF204": fencing.Refused, "ZF205": fencing.Refused,
			"08006": fencing.Unknown,
		} {
			if got := fencing.OutcomeOf(pgguard.Explain(from(code))); got != want {
				t.Errorf("%s: got %v, want %v", code, got, want)
			}
		}
	}
	if e := pgError(pgguard.Explain(&pgconn.PgError{SeverityUnlocalized: "ERROR", Code: "23505", Detail: "mine"})); e.Detail != "mine" {
		t.Errorf("got %+v, want the caller's own detail", e)
	}
	// The answer to COMMIT, by a driver that does not say whether it ended the session.
	for code, want := range map[string]fencing.Outcome{
		"40003": fencing.Unknown, "53100": fencing.Unknown, "53200": fencing.Unknown, "57P01": fencing.Unknown, "58030": fencing.Unknown,
		"F0000": fencing.Unknown, "XX000": fencing.Unknown, "XX002": fencing.Unknown,
		"40001": fencing.Failed, "23503": fencing.Failed, "23P01": fencing.Failed, "25P03": fencing.Failed, "57014": fencing.Failed,
	} {
		if got := fencing.OutcomeOf(pgguard.Explain(fmt.Errorf("commit: %w", otherDriver{code, "x"}))); got != want {
			t.Errorf("another driver's %s: got %v, want %v", code, got, want)
		}
	}
	for _, err := range []error{fatalDriver{otherDriver{"22000", "x"}}, panicDriver{otherDriver{"22000", "x"}}} {
		if got := fencing.OutcomeOf(pgguard.Explain(fmt.Errorf("commit: %w", err))); got != fencing.Unknown {
			t.Errorf("%T: got %v, want unknown", err, got)
		}
	}
	if err := pgguard.Explain(fmt.Errorf("commit: %w", pgx.ErrTxCommitRollback)); fencing.OutcomeOf(err) != fencing.Failed || !errors.Is(err, pgx.ErrTxCommitRollback) {
		t.Errorf("a COMMIT that rolled back: got %v, want failed", err)
	}
	for _, err := range []error{nil, io.EOF, fencing.AsFailed(io.EOF)} {
		if got := pgguard.Explain(err); got != err { //nolint:errorlint // the very same
			t.Errorf("got %v, want %v as it was", got, err)
		}
	}
}

// subject is the rule, as enter and as a guard follow it. Classic is not theirs: that is the store.
type subject struct {
	fencing.Fence
	use  func(ctx context.Context, t fencing.Token) error
	mode fencing.Mode
}

func (s *subject) Use(ctx context.Context, t fencing.Token) error {
	if err := t.Validate(); err != nil {
		return err
	}
	if s.mode == fencing.Strict {
		return s.use(ctx, t)
	}
	m, err := s.Mark(ctx, t.Resource)
	if err == nil && t.Number > m.Number {
		return s.Raise(ctx, t)
	}
	return errors.Join(err, m.Check(t, s.mode))
}

func (s *subject) Raise(ctx context.Context, t fencing.Token) error {
	if err := t.Validate(); err != nil {
		return err
	}
	if t.Grant == "" && s.mode == fencing.Strict {
		m, err := s.Mark(ctx, t.Resource)
		return errors.Join(err, m.Check(t, s.mode))
	}
	return s.Fence.Raise(ctx, t)
}

func (s *subject) Evict(ctx context.Context, t fencing.Token) error {
	if err := t.Validate(); err != nil {
		return err
	}
	return s.Fence.Evict(ctx, t)
}

// TestRule runs the one table of verdicts over enter, and over a guard whose variable was set by hand.
func TestRule(t *testing.T) {
	t.Parallel()
	for name, hand := range map[string]bool{"enter": false, "guard": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.exec(t, "create table rules (r text)")
			w.grant(t, "rules")
			w.protect(t, pgguard.Guard{Table: "rules", Column: "r"})
			c := w.app(t)
			use := func(ctx context.Context, tok fencing.Token) error {
				if hand {
					return pgguard.Explain(byHand(t, c, tok.Resource, tok.Text(), "insert into rules values ('"+tok.Resource+"')"), tok)
				}
				return in(t, c, pgx.ReadCommitted, func(tx pgx.Tx) error { return pgguard.Enter(ctx, tx, tok) })
			}
			fencingtest.Run(t, fencingtest.Harness{
				New: func(tb testing.TB, mode fencing.Mode) fencingtest.Subject {
					w.exec(tb, "update fencegate.meta set floor = 0")
					return &subject{Fence: w.fence, use: use, mode: mode}
				},
				Set: func(tb testing.TB, _ fencingtest.Subject, resource string, s fencingtest.State) {
					w.exec(tb, fmt.Sprintf("update fencegate.meta set floor = %d", s.Floor))
					if s.Absent {
						return
					}
					incarnation := "fencegate.incarnation()"
					if s.Inherited {
						incarnation = "'earlier'"
					}
					w.exec(tb, fmt.Sprintf("insert into fencegate.marks (resource, number, grant_id, retired, incarnation) values ('%s', %d, '%s', %t, %s)",
						resource, s.Mark.Number, strings.TrimSpace(s.Mark.Grant), s.Mark.Retired, incarnation))
				},
				Unique: testenv.Unique, Floors: true, Incarnations: true,
			})
		})
	}
}
