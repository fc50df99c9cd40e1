package pgguard_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/storage/pgguard"
)

// TestApplicationCannotPass: what a role could do against the guard that may enter and write.
func TestApplicationCannotPass(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(t, "create function public.nothing() returns trigger language plpgsql as 'begin return null; end'")
	c := w.app(t)
	tok := w.raise(t, "coupon:1", 34)
	for _, sql := range []string{
		"alter table coupons disable trigger all", "alter table coupons disable trigger fencegate_guard",
		"alter table coupons enable replica trigger fencegate_guard", "drop trigger fencegate_guard on coupons",
		"create or replace trigger fencegate_guard after insert or update or delete on coupons for each row execute function nothing()",
		"create trigger a before insert on coupons for each row execute function nothing()",
		"truncate coupons", "alter table coupons rename column id to x", "drop table coupons",
		"set session_replication_role = replica",
		"select fencegate.unprotect('coupons')", "select fencegate.protect('coupons', 'x:', 'id')",
		"select fencegate.guard_make('coupons', 'x:', 'id', true)", "select fencegate.guard_drop()", "select fencegate.guard_refuse(0, '', '', true)",
		"select fencegate.refusal('coupon:1', '1')", "select fencegate.refuse('', '', 0)", "select fencegate.guard_body(0, '', '', 0, false, true)",
		"select fencegate.raise('coupon:1', 35, '')", "select fencegate.retire('coupon:1', 34, '')", "select fencegate.evict('coupon:1', 34, '')",
		"select * from fencegate.marks", "update fencegate.marks set number = 1", "select * from fencegate.shadow", "delete from fencegate.shadow_refusals",
		"update fencegate.meta set max_idle_ms = 1", "create function fencegate.f() returns int language sql as 'select 1'",
	} {
		_, err := c.Exec(t.Context(), sql)
		wantCode(t, sql, err, "42501")
	}
	// Operators and functions of its own, in front of those of the system, are not found by guards.
	w.exec(t, "create schema evil; grant all on schema evil to "+w.role)
	for _, sql := range []string{
		"create function evil.yes(text, text) returns boolean language sql as 'select true'",
		"create operator evil.= (leftarg = text, rightarg = text, function = evil.yes)",
		"create operator evil.<> (leftarg = text, rightarg = text, function = evil.yes)",
		"create function evil.split_part(text, text, int) returns text language sql as 'select ''34.AAAAAAAAAAAAAAAAAAAAAAAAAA'''",
		"create function evil.current_setting(text, boolean) returns text language sql as 'select ''x'''",
		"set search_path = evil, pg_catalog, public",
	} {
		if _, err := c.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	const insert = "insert into coupons values ('new')"
	mine := w.raise(t, "coupon:new", 34)
	wantCode(t, "with operators of its own", fenced(t, c, nil, insert), pgguard.CodeNoToken)
	wantCode(t, "with operators of its own, another's token", fenced(t, c, []fencing.Token{tok}, insert), pgguard.CodeNoToken)
	wantCode(t, "with operators of its own, a made-up grant", byHand(t, c, "coupon:new", "34.AAAAAAAAAAAAAAAAAAAAAAAAAA", insert), pgguard.CodeDuplicate)
	wantNil(t, "with operators of its own, its token", fenced(t, c, []fencing.Token{mine}, insert))

	// A replica session, which only a superuser can have, passes no guard.
	admin := connect(t, w.url)
	if _, err := admin.Exec(t.Context(), "set session_replication_role = replica"); err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{update1, "insert into coupons values ('77')", "delete from coupons"} {
		wantCode(t, "a replica: "+sql, fenced(t, admin, nil, sql), pgguard.CodeNoToken)
	}
	wantCode(t, "a replica: truncate", fenced(t, admin, nil, "truncate coupons"), pgguard.CodeTruncate)
}

// TestTruncate: neither the table nor a partition, alone, with others or by cascade, also by one who
// was granted it later, and by the owner.
func TestTruncate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(t, `create table parts (id int primary key) partition by range (id);
		create table parts_low partition of parts for values from (1) to (100);
		create table parts_high partition of parts for values from (100) to (200) partition by range (id);
		create table parts_high_1 partition of parts_high for values from (100) to (150);
		create table referenced (id text primary key); create table other (id int);
		alter table coupons add foreign key (id) references referenced not valid;
		insert into parts values (1), (101)`)
	tables := []string{"coupons", "parts", "parts_low", "parts_high", "parts_high_1"}
	w.exec(t, "grant truncate, trigger on "+strings.Join(tables, ", ")+" to public", "grant truncate on coupons to "+w.role+" with grant option")
	w.protect(t, pgguard.Guard{Table: "public.parts", Prefix: "part:", Column: "id"})
	w.protect(t, pgguard.Guard{Table: "public.coupons", Prefix: "coupon:", Column: "id"})
	c := w.app(t)
	tok := w.raise(t, "coupon:1", 1)
	for _, table := range tables {
		wantCode(t, table+", revoked", fenced(t, c, []fencing.Token{tok}, "truncate "+table), "42501")
	}
	w.exec(t, "grant truncate on other, referenced, "+strings.Join(tables, ", ")+" to "+w.role)
	for _, table := range append(tables, "other, coupons", "referenced cascade") {
		wantCode(t, table+", granted", fenced(t, c, []fencing.Token{tok}, "truncate "+table), pgguard.CodeTruncate)
		_, err := w.admin.Exec(t.Context(), "truncate "+table)
		wantCode(t, table+", the owner", err, pgguard.CodeTruncate)
	}
	// One that is attached later is guarded with the next call.
	w.exec(t, "create table parts_late partition of parts for values from (300) to (400)", "grant truncate on parts_late to "+w.role)
	if !slices.Contains(findings(t, w), "public.parts_late: the trigger for TRUNCATE is missing: guard the table again") {
		t.Errorf("got %q, want the partition that was attached later", findings(t, w))
	}
	w.protect(t, pgguard.Guard{Table: "public.parts", Prefix: "part:", Column: "id"})
	w.exec(t, "grant truncate on parts_late to "+w.role)
	wantCode(t, "attached later", fenced(t, c, nil, "truncate parts_late"), pgguard.CodeTruncate)
	if got := value[int](t, w.admin, "select count(*) from parts"); got != 2 {
		t.Errorf("%d rows are left, want 2", got)
	}
}

// TestOwners: who may guard a table, and what the owner can do who is no superuser.
func TestOwners(t *testing.T) {
	t.Parallel()
	owner, stranger := role(t), role(t)
	w := newWorld(t)
	w.exec(t, "create schema team authorization "+owner)
	o, s := connect(t, w.urlOf(owner)), connect(t, w.urlOf(stranger))
	create := "create table team.coupons (id text primary key, n int default 0); insert into team.coupons values ('1')"
	if _, err := o.Exec(t.Context(), create); err != nil {
		t.Fatal(err)
	}
	g := pgguard.Guard{Table: "team.coupons", Prefix: "team:", Column: "id"}
	for name, c := range map[string]*pgx.Conn{"the owner without the right": o, "a stranger without the right": s} {
		_, err := pgguard.Protect(t.Context(), c, g)
		wantCode(t, name, err, "42501")
	}
	for _, r := range []string{owner, stranger} { // as docs/guard.md says
		w.exec(t, "grant usage on schema fencegate to "+r,
			"grant execute on function fencegate.protect(regclass, text, text, boolean), fencegate.unprotect(regclass), "+
				"fencegate.guard_make(regclass, text, text, boolean), fencegate.guard_tables(regclass), fencegate.guard_drop() to "+r)
	}
	w.exec(t, "grant usage on schema team to "+stranger)
	_, err := pgguard.Protect(t.Context(), s, g)
	wantCode(t, "a stranger", err, "42501")
	_, err = s.Exec(t.Context(), "select fencegate.guard_make('team.coupons', 'other:', 'id', true)")
	wantCode(t, "a stranger, by its parts", err, "42501")
	if done, err := pgguard.Protect(t.Context(), o, g); err != nil || done != "team.coupons is guarded by team:<id>" {
		t.Fatalf("the owner: got %q, %v", done, err)
	}
	_, err = s.Exec(t.Context(), "select fencegate.guard_make('team.coupons', 'other:', 'id', true)")
	wantCode(t, "a stranger, by its parts", err, "42501")
	_, err = s.Exec(t.Context(), "select fencegate.guard_drop()")
	wantNil(t, "guards that nobody uses", err)
	_, err = pgguard.Unprotect(t.Context(), s, g.Table)
	wantCode(t, "a stranger", err, "42501")

	w.exec(t, "grant usage on schema team to "+w.role)
	w.grant(t, "team.coupons")
	c := w.app(t)
	update := "update team.coupons set n = 1"
	wantCode(t, "the owner writes", fenced(t, o, nil, update), pgguard.CodeNoToken)
	wantCode(t, "no token", fenced(t, c, nil, update), pgguard.CodeNoToken)
	wantNil(t, "its token", fenced(t, c, []fencing.Token{w.raise(t, "team:1", 1)}, update))
	if done, err := pgguard.Unprotect(t.Context(), o, g.Table); err != nil || done != "team.coupons is no longer guarded" {
		t.Errorf("unprotect: got %q, %v", done, err)
	}
	wantNil(t, "unprotected", fenced(t, c, nil, update))
	if got := value[int](t, w.admin, "select count(*) from pg_proc where pronamespace = 'fencegate'::regnamespace and proname ~ '^guard_[0-9a-f]{32}$'"); got != 1 {
		t.Errorf("there are %d guards, want the one of public.coupons", got)
	}
}

func findings(tb testing.TB, w *world) (list []string) {
	tb.Helper()
	r, err := pgguard.Status(tb.Context(), w.admin)
	if err != nil {
		tb.Fatal(err)
	}
	for _, f := range r.Findings {
		list = append(list, strings.ReplaceAll(f.String(), w.role, "app"))
	}
	return list
}

// TestStatus makes every hole that Status knows, and looks for it.
func TestStatus(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(t, `create table parts (id int primary key) partition by range (id); create table parts_1 partition of parts for values from (1) to (100);
		create table free (a int); create temp table mine (a int); create table "Shadow" (id uuid)`)
	w.protect(t, pgguard.Guard{Table: "parts", Prefix: "part:", Column: "id"})
	w.protect(t, pgguard.Guard{Table: `"Shadow"`, Column: "id", Shadow: true})
	r, err := pgguard.Status(t.Context(), w.admin)
	want := []pgguard.Guard{
		{Table: `public."Shadow"`, Column: "id", Shadow: true},
		{Table: "public.coupons", Prefix: "coupon:", Column: "id"},
		{Table: "public.parts", Prefix: "part:", Column: "id"},
	}
	if err != nil || !slices.Equal(r.Guarded, want) || !slices.Equal(r.Unguarded, []string{"public.free"}) {
		t.Errorf("got %+v, %v, want %+v", r, err, want)
	}
	shadow := `public."Shadow": it is in shadow mode: nothing is refused`
	if got := findings(t, w); !slices.Equal(got, []string{shadow}) {
		t.Errorf("got %q, want nothing but the shadow", got)
	}
	if _, err := pgguard.Status(t.Context(), w.app(t)); err != nil {
		t.Errorf("status for the application: %v", err)
	}
	inherits := "create table child () inherits (coupons)"
	for _, c := range []struct{ do, undo, want string }{
		{"alter table coupons disable trigger fencegate_guard", "alter table coupons enable always trigger fencegate_guard", "public.coupons: the trigger for rows is disabled: guard the table again"},
		{"alter table coupons enable trigger fencegate_guard", "alter table coupons enable always trigger fencegate_guard", "public.coupons: the trigger for rows is not ENABLE ALWAYS: a replica passes it; guard the table again"},
		{"alter table parts_1 disable trigger fencegate_guard", "alter table parts_1 enable always trigger fencegate_guard", "public.parts_1: the trigger for rows is disabled: guard the table again"},
		{"alter table parts_1 disable trigger fencegate_guard_truncate", "alter table parts_1 enable always trigger fencegate_guard_truncate", "public.parts_1: the trigger for TRUNCATE is disabled: guard the table again"},
		{"drop trigger fencegate_guard_truncate on parts_1", "select fencegate.protect('parts', 'part:', 'id')", "public.parts_1: the trigger for TRUNCATE is missing: guard the table again"},
		{"create or replace trigger fencegate_guard after insert or delete on coupons for each row execute function fencegate.guard_truncate(); alter table coupons enable always trigger fencegate_guard", "select fencegate.protect('coupons', 'coupon:', 'id')", "public.coupons: the trigger for rows is another one: guard the table again"},
		{"create or replace trigger fencegate_guard_truncate before truncate on coupons for each statement when (false) execute function fencegate.guard_truncate(); alter table coupons enable always trigger fencegate_guard_truncate", "select fencegate.protect('coupons', 'coupon:', 'id')", "public.coupons: the trigger for TRUNCATE is another one: guard the table again"},
		{"grant trigger on parts to " + w.role, "revoke trigger on parts from " + w.role, "public.parts: app has TRIGGER, and can put another trigger in the guard's place"},
		{"grant truncate on parts_1 to public", "revoke truncate on parts_1 from public", "public.parts_1: public has TRUNCATE, which the guard refuses"},
		{"alter table coupons rename id to code", "alter table coupons rename code to id", "public.coupons: the column id is gone: every write is refused; guard the table again"},
		{"alter table coupons alter id type varchar(9)", "alter table coupons alter id type text", "public.coupons: the type of the column id changed: every write is refused; guard the table again"},
		{inherits, "drop table child", "public.coupons: child inherits from it, and its rows are not guarded"},
		{"alter table coupons owner to " + w.role, "alter table coupons owner to postgres", "public.coupons: app may enter, and is or can become the owner"},
		{"alter role " + w.role + " superuser", "alter role " + w.role + " nosuperuser", "app may enter, and is a superuser"},
		{"alter role " + w.role + " replication", "alter role " + w.role + " noreplication", "app may enter, and has REPLICATION: it can copy the server's files, marks included"},
		{"alter role " + w.role + " createrole", "alter role " + w.role + " nocreaterole", "app may enter, and has CREATEROLE: it can become the owner of tables"},
		{"grant fencegate_gateway to " + w.role, "revoke fencegate_gateway from " + w.role, "app may enter, and is a member of fencegate_gateway: it can raise"},
		{"grant pg_read_all_data to " + w.role, "revoke pg_read_all_data from " + w.role, "app may enter, and may read marks, with the grant ids of everybody"},
		{"grant pg_write_all_data to " + w.role, "revoke pg_write_all_data from " + w.role, "app may enter, and may write marks"},
		{"grant pg_execute_server_program to " + w.role, "revoke pg_execute_server_program from " + w.role, "app may enter, and is a member of pg_execute_server_program: it can do all that the server's own user can"},
	} {
		w.exec(t, c.do)
		if got := findings(t, w); !slices.Contains(got, c.want) {
			t.Errorf("%s: got %q, want %q", c.do, got, c.want)
		}
		w.exec(t, c.undo)
		if got := findings(t, w); !slices.Equal(got, []string{shadow}) {
			t.Errorf("%s: got %q, want nothing but the shadow", c.undo, got)
		}
	}
}

// TestTriggerPrivilege shows why protect revokes it.
func TestTriggerPrivilege(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(t, "create function nothing() returns trigger language plpgsql as 'begin return null; end'", "grant trigger on coupons to "+w.role)
	c := w.app(t)
	const replace = "create or replace trigger fencegate_guard after insert or update or delete on coupons for each row execute function nothing()"
	if _, err := c.Exec(t.Context(), replace); err != nil {
		t.Fatalf("the privilege is not enough to replace the guard, so protect need not revoke it: %v", err)
	}
	wantNil(t, "past the guard", fenced(t, c, nil, update1))
	if r, err := pgguard.Status(t.Context(), w.admin); err != nil || !slices.Contains(r.Unguarded, "public.coupons") {
		t.Errorf("got %+v, %v, want that it is unguarded", r, err)
	}
	_, err := pgguard.Protect(t.Context(), w.admin, pgguard.Guard{Table: "coupons", Prefix: "coupon:", Column: "id"})
	if err != nil {
		t.Fatal(err)
	}
	wantCode(t, "guarded again", fenced(t, c, nil, update1), pgguard.CodeNoToken)
	_, err = c.Exec(t.Context(), replace)
	wantCode(t, "revoked", err, "42501")
}

// TestNotToBeGuarded: clear words for what cannot be guarded.
func TestNotToBeGuarded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(t, `create view v as select * from coupons; create materialized view m as select * from coupons;
		create table parent (id int); create table child () inherits (parent);
		create table parts (id int) partition by range (id); create table parts_1 partition of parts for values from (1) to (100);
		create table types (d date, f float8, b bytea, a int[], e int generated always as (1) stored);
		create foreign data wrapper nothing; create server nowhere foreign data wrapper nothing; create foreign table far (id int) server nowhere;
		create table mixed (id int) partition by range (id); create foreign table mixed_1 partition of mixed for values from (1) to (100) server nowhere`)
	admin := connect(t, w.url)
	if _, err := admin.Exec(t.Context(), "create temp table mine (id int)"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ table, column, code, message string }{
		{"missing", "id", "42P01", `relation "missing" does not exist`},
		{"missing.coupons", "id", "3F000", `schema "missing" does not exist`},
		{"coupons; drop table coupons", "id", "42602", "invalid name syntax"},
		{"coupons", "missing", "42703", "fencegate: public.coupons has no column missing"},
		{"coupons", "ctid", "42703", "fencegate: public.coupons has no column ctid"},
		{"v", "id", "42809", "fencegate: public.v is a view, and only tables can be guarded"},
		{"m", "id", "42809", "fencegate: public.m is a materialized view, and only tables can be guarded"},
		{"far", "id", "42809", "fencegate: public.far is a foreign table, and only tables can be guarded"},
		{"coupons_pkey", "id", "42809", "fencegate: public.coupons_pkey is a index, and only tables can be guarded"},
		{"mine", "id", "42809", "fencegate: mine is a temporary table: nobody else can write to it"},
		{"parts_1", "id", "42809", "fencegate: public.parts_1 is a partition of public.parts"},
		{"parent", "id", "0A000", "fencegate: public.parent has children by INHERITS, whose rows its triggers do not see"},
		{"mixed", "id", "0A000", "fencegate: the partition public.mixed_1 is a foreign table"},
		{"fencegate.marks", "resource", "42809", "fencegate: fencegate.marks is not a table of yours"},
		{"pg_class", "relname", "42809", "fencegate: pg_class is not a table of yours"},
		{"types", "d", "42804", "fencegate: the column d of public.types is date: want a text, integer, numeric, uuid, boolean or enum"},
		{"types", "f", "42804", "fencegate: the column f of public.types is double precision: want a text, integer, numeric, uuid, boolean or enum"},
		{"types", "b", "42804", "fencegate: the column b of public.types is bytea: want a text, integer, numeric, uuid, boolean or enum"},
		{"types", "a", "42804", "fencegate: the column a of public.types is integer[]: want a text, integer, numeric, uuid, boolean or enum"},
	} {
		_, err := pgguard.Protect(t.Context(), admin, pgguard.Guard{Table: c.table, Prefix: "p:", Column: c.column})
		wantCode(t, c.table, err, c.code)
		if got := pgError(err).Message; got != c.message {
			t.Errorf("%s.%s: got %q, want %q", c.table, c.column, got, c.message)
		}
	}
	for _, g := range []pgguard.Guard{{}, {Table: "coupons"}, {Table: "coupons", Column: "id", Prefix: "/"}, {Table: "coupons", Column: "id", Prefix: strings.Repeat("x", 200)}} {
		_, _, err := pgguard.SQL(g)
		_, err2 := pgguard.Protect(t.Context(), admin, g)
		if !errors.Is(err, fencing.ErrInvalid) || !errors.Is(err2, fencing.ErrInvalid) {
			t.Errorf("%+v: got %v and %v, want invalid", g, err, err2)
		}
	}
	_, err := admin.Exec(t.Context(), "select fencegate.protect('coupons', '/', 'id')")
	wantCode(t, "a prefix", err, "22023")
	empty := connect(t, emptyDatabase(t))
	for what, err := range map[string]error{
		"protect": second(pgguard.Protect(t.Context(), empty, pgguard.Guard{Table: "pg_class", Column: "x"})), "unprotect": second(pgguard.Unprotect(t.Context(), empty, "pg_class")),
		"status": second(pgguard.Status(t.Context(), empty)),
	} {
		if !errors.Is(err, pgguard.ErrSchema) {
			t.Errorf("%s without the schema: got %v, want ErrSchema", what, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// TestTypes: every type that a column may have, and names that need quotes.
func TestTypes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(t, "create type colour as enum ('red', 'green'); create domain code as text; create domain short as code check (length(value) < 5)", `create schema "S'x"`, "grant usage on schema \"S'x\" to "+w.role)
	c := w.app(t)
	for i, col := range []struct{ kind, literal, text string }{
		{"text", "'a'", "a"},
		{"varchar(9)", "'a'", "a"},
		{"char(5)", "'a'", "a"},
		{"smallint", "7", "7"},
		{"integer", "7", "7"},
		{"bigint", "7", "7"},
		{"numeric", "7.50", "7.50"},
		{"uuid", "'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"},
		{"boolean", "true", "true"},
		{"colour", "'red'", "red"},
		{"short", "'a'", "a"},
	} {
		table := fmt.Sprintf(`"S'x"."T %d"`, i)
		w.exec(t, fmt.Sprintf(`create table %s (n int, "old$new%%1$s'""x" %s)`, table, col.kind))
		w.grant(t, table)
		g := pgguard.Guard{Table: table, Prefix: fmt.Sprintf("t%d:", i), Column: `old$new%1$s'"x`}
		up, down, err := pgguard.SQL(g)
		wantNil(t, "SQL", err)
		w.exec(t, up, down, up)
		insert := fmt.Sprintf("insert into %s values (1, %s)", table, col.literal)
		wantCode(t, col.kind, fenced(t, c, nil, insert), pgguard.CodeNoToken)
		wantNil(t, col.kind, fenced(t, c, []fencing.Token{w.raise(t, g.Prefix+col.text, 1)}, insert, "update "+table+" set n = 2", "delete from "+table))
	}
}
