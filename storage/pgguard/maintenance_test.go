package pgguard_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/migrations"
	"github.com/fencegate/fencegate/storage/pgguard"
)

// TestMaintenance: what docs/guard.md tells the owner to do.
func TestMaintenance(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.app(t)
	tok := w.raise(t, "coupon:1", 1)
	written := make(chan error, 1)
	wantNil(t, "maintenance", in(t, connect(t, w.url), pgx.ReadCommitted, func(tx pgx.Tx) error {
		if err := run(t, tx, "select fencegate.unprotect('public.coupons')", "update coupons set n = 50"); err != nil {
			return err
		}
		go func() { written <- fenced(t, c, nil, update1) }()
		w.blocked(t, 1)
		return run(t, tx, "select fencegate.protect('public.coupons', 'coupon:', 'id')")
	}))
	wantCode(t, "who came meanwhile", <-written, pgguard.CodeNoToken)
	if got := value[int](t, w.admin, "select min(n) from coupons"); got != 50 {
		t.Errorf("got %d, want what the owner wrote", got)
	}

	// pg_restore --disable-triggers.
	w.exec(t, "alter table coupons disable trigger all", "alter table coupons enable trigger all")
	if got := findings(t, w); len(got) != 2 {
		t.Errorf("got %q, want both triggers", got)
	}
	w.protect(t, pgguard.Guard{Table: "coupons", Prefix: "coupon:", Column: "id"})
	if got := findings(t, w); len(got) != 0 {
		t.Errorf("got %q, want nothing", got)
	}

	w.exec(t, "alter table coupons rename to vouchers")
	wantCode(t, "renamed", fenced(t, c, nil, "update vouchers set n = 1"), pgguard.CodeNoToken)
	wantNil(t, "renamed", fenced(t, c, []fencing.Token{tok}, "update vouchers set n = 1 where id = '1'"))
	w.exec(t, "alter table vouchers rename id to code")
	wantCode(t, "another column", fenced(t, c, []fencing.Token{tok}, "update vouchers set n = 1 where code = '1'"), "42703")
	w.protect(t, pgguard.Guard{Table: "vouchers", Prefix: "coupon:", Column: "code"})
	wantNil(t, "another column", fenced(t, c, []fencing.Token{tok}, "update vouchers set n = 1 where code = '1'"))

	m, err := migrations.Open(t.Context(), w.url)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	steps := int(migrations.Latest(migrations.Postgres)) - 6
	w.exec(t, "create view mine as select fencegate.enter('coupon:1', 'x') as n", "create view yours as select * from fencegate.shadow")
	for _, view := range []string{"mine", "yours"} {
		if _, err := m.Down(t.Context(), steps, true); err == nil || !strings.Contains(err.Error(), "view "+view+" depends on") {
			t.Errorf("a step down below a view: got %v, want its name", err)
		}
		steps = 1
		wantCode(t, "nothing was changed", fenced(t, c, nil, "update vouchers set n = 1"), pgguard.CodeNoToken)
		w.exec(t, "drop view "+view)
	}
	if _, err := m.Down(t.Context(), 1, true); err != nil {
		t.Fatal(err)
	}
	wantNil(t, "after the step down", fenced(t, c, nil, "update vouchers set n = 1"))
}
