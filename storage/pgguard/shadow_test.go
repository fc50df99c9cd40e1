package pgguard_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/storage/pgguard"
)

// TestShadow: everything passes, what would be refused can be counted, and the next call makes
// it strict, in sessions that have the guard's plans already, too.
func TestShadow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := pgguard.Guard{Table: "public.coupons", Prefix: "coupon:", Column: "id", Shadow: true}
	w.protect(t, g)
	w.exec(t, "grant truncate on coupons to "+w.role)
	c := w.app(t)
	old := w.raise(t, "coupon:1", 33)
	tok := w.raise(t, "coupon:1", 34)
	for range 10 {
		wantNil(t, "with its token", fenced(t, c, []fencing.Token{tok}, update1))
	}
	if got := value[int](t, w.admin, "select count(*) from fencegate.shadow_refusals"); got != 0 {
		t.Errorf("%d refusals, want none", got)
	}
	wantNil(t, "no token", fenced(t, c, nil, "update coupons set n = 1"))
	wantNil(t, "no token", fenced(t, c, nil, update1, update2))
	wantNil(t, "a stale token by hand", byHand(t, c, "coupon:1", old.Text(), update1))
	wantNil(t, "no resource", fenced(t, c, nil, "insert into coupons values ('a b')"))
	wantNil(t, "truncate", fenced(t, c, nil, "truncate coupons"))
	if err := in(t, c, pgx.ReadCommitted, func(tx pgx.Tx) error {
		if err := run(t, tx, "insert into coupons values ('1')"); err != nil {
			return err
		}
		return run(t, tx, "select 1/0")
	}); err == nil {
		t.Error("1/0 passed")
	}
	for sql, want := range map[string]int64{
		"select sum(transactions)::bigint from fencegate.shadow":                                              5,
		"select transactions from fencegate.shadow where code = 'ZF201'":                                      2,
		"select transactions from fencegate.shadow where code = 'ZF101' and operation = 'UPDATE'":             1,
		"select transactions from fencegate.shadow where code = 'ZF203' and operation = 'INSERT'":             1,
		"select transactions from fencegate.shadow where code = 'ZF204' and relation = 'public.coupons'":      1,
		"select count(*) from fencegate.shadow_refusals where role = '" + w.role + "'":                        5,
		"select count(*) from fencegate.shadow_refusals where message like '%" + old.Grant + "%'":             0,
		"select count(*) from fencegate.shadow_refusals where code = 'ZF101' and resource = 'coupon:1'":       1,
		"select count(*) from fencegate.shadow where code = 'ZF201' and example like '%no token of coupon:%'": 1,
	} {
		if got := value[int64](t, w.admin, sql); got != want {
			t.Errorf("%s: got %d, want %d", sql, got, want)
		}
	}
	// Where nothing is refused, nobody is made to wait either.
	wantNil(t, "a raise in flight", in(t, connect(t, w.url), pgx.ReadCommitted, func(tx pgx.Tx) error {
		if err := run(t, tx, "select fencegate.raise('coupon:1', 35, '"+fencing.NewGrant()+"')"); err != nil {
			return err
		}
		return byHand(t, c, "coupon:1", tok.Text(), "insert into coupons values ('1')")
	}))

	g.Shadow = false
	w.protect(t, g)
	wantCode(t, "strict", fenced(t, c, nil, update1), pgguard.CodeNoToken)
	wantCode(t, "strict", fenced(t, c, nil, "truncate coupons"), "42501")
	g.Prefix, g.Column = "number:", "n"
	w.protect(t, g)
	wantCode(t, "guarded by another column", fenced(t, c, []fencing.Token{w.raise(t, "coupon:1", 40)}, "insert into coupons values ('7', 7)"), pgguard.CodeNoToken)
	wantNil(t, "guarded by another column", fenced(t, c, []fencing.Token{w.raise(t, "number:7", 1)}, "insert into coupons values ('7', 7)"))
}
