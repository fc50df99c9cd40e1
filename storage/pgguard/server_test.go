package pgguard_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/pgtx/pgtxtest"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/storage/pgguard"
)

// private is a world on a server of its own.
func private(tb testing.TB, settings ...string) (*world, *testenv.Postgres) {
	tb.Helper()
	server := testenv.StartPostgres(tb, &testenv.PostgresOptions{NoSync: true, Settings: settings})
	w := &world{role: "app", url: server.NewDatabase(tb)}
	if err := pgtxtest.Migrate(w.url); err != nil {
		tb.Fatal(err)
	}
	w.open(tb)
	w.exec(tb, "create role app login in role fencegate_app", "create table coupons (id text primary key, n int default 0)", "insert into coupons values ('1'), ('2')")
	w.grant(tb, "coupons")
	w.protect(tb, pgguard.Guard{Table: "coupons", Prefix: "coupon:", Column: "id"})
	return w, server
}

// TestRestart: a restart ends every token, also for one who sets the variable by hand.
func TestRestart(t *testing.T) {
	t.Parallel()
	w, server := private(t)
	tok := w.raise(t, "coupon:1", 33)
	wantNil(t, "before", fenced(t, w.app(t), []fencing.Token{tok}, update1))
	server.Restart()
	testenv.Eventually(t, 20*time.Second, "the server answers", func() bool { return w.admin.Ping(t.Context()) == nil })
	c := w.app(t)
	wantCode(t, "enter", fenced(t, c, []fencing.Token{tok}, update1), pgguard.CodeRetired)
	wantCode(t, "by hand", byHand(t, c, tok.Resource, tok.Text(), update1), pgguard.CodeRetired)
	wantNil(t, "the next token", fenced(t, c, []fencing.Token{w.raise(t, "coupon:1", 34)}, update1))
}

// TestSecretsAreNotLogged: with parameters sent as parameters and not logged, a server that logs
// everything else shows no grant id, also where it refuses.
func TestSecretsAreNotLogged(t *testing.T) {
	t.Parallel()
	w, server := private(t, "log_statement = all", "log_min_duration_statement = 0", "log_parameter_max_length = 0", "log_parameter_max_length_on_error = 0",
		"log_error_verbosity = verbose", "log_min_messages = debug1", "log_min_error_statement = debug1", "log_lock_waits = on", "deadlock_timeout = 10ms",
		"log_duration = on", "debug_print_plan = on", "session_preload_libraries = auto_explain", "auto_explain.log_min_duration = 0", "auto_explain.log_nested_statements = on")
	for _, mode := range []string{"cache_statement", "exec", "describe_exec", "cache_describe"} {
		c := connect(t, w.urlOf(w.role)+"&default_query_exec_mode="+mode)
		old := w.raise(t, "coupon:1", value[int64](t, w.admin, "select coalesce(max(number), 0) + 1 from fencegate.marks"))
		tok := w.raise(t, "coupon:1", old.Number+1)
		two := w.raise(t, "coupon:2", old.Number+1)
		wantNil(t, "its token", fenced(t, c, []fencing.Token{tok}, update1))
		wantNil(t, "both", in(t, c, pgx.ReadCommitted, func(tx pgx.Tx) error { return pgguard.Enter(t.Context(), tx, tok, two) }))
		wantCode(t, "stale", fenced(t, c, []fencing.Token{old}, update1), pgguard.CodeSuperseded)
		wantCode(t, "no token", fenced(t, c, []fencing.Token{tok}, update2), pgguard.CodeNoToken)
		wantCode(t, "by hand", byHand(t, c, tok.Resource, old.Text(), update1), pgguard.CodeSuperseded)
		_, err := c.Exec(t.Context(), enter, tok.Text(), tok.Resource)
		wantCode(t, "the wrong way round", err, pgguard.CodeShape)
		// One waits for another, and says so in the log.
		done := make(chan error, 1)
		wantNil(t, "who waits", in(t, w.app(t), pgx.ReadCommitted, func(tx pgx.Tx) error {
			err := pgguard.Enter(t.Context(), tx, tok)
			go func() { done <- fenced(t, c, []fencing.Token{tok}, update1) }()
			w.blocked(t, 1)
			return err
		}))
		wantNil(t, "who waited", <-done)
		text, err := os.ReadFile(filepath.Join(server.Dir(), "log"))
		if err != nil {
			t.Fatal(err)
		}
		log := string(text)
		if !strings.Contains(log, "fencegate.enter") || !strings.Contains(log, "superseded") || !strings.Contains(log, "for no key update") {
			t.Fatal("the log has not what is to be looked through")
		}
		for _, tok := range []fencing.Token{old, tok, two} {
			if i := strings.Index(log, tok.Grant); i >= 0 {
				t.Errorf("%s: the log shows a grant id: %s", mode, log[max(0, i-300):min(len(log), i+100)])
			}
		}
	}
}
