package pgguard_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/storage/pgguard"
)

// The text of a value of type evil is made by a function that notes who called it.
const evil = `create table witness (who text); grant insert on witness to public;
	create type evil as (a text);
	create function evil_text(evil) returns text language plpgsql as 'begin insert into public.witness values (current_user); return (($1).a); end';
	create cast (evil as text) with function evil_text(evil) as implicit`

// TestColumnChanged: behind protect, the owner of a table makes its column something else, whose
// text is made by a function of theirs or differs between sessions. Nothing is evaluated, and
// nothing is written; a guard in shadow mode notes it.
func TestColumnChanged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := int64(0)
	w.exec(t, evil, "create type colour as enum ('red')", "create domain code as text", "create domain code2 as text")
	for name, s := range map[string]struct{ create, insert, change, then, code, finding string }{ //nolint:paralleltest // they share the tables
		"another type, by the owner's function": {
			create: "id text", insert: "('1')", change: "drop column id, add column id evil", then: "(row('1'))",
			code: pgguard.CodeChanged, finding: "the type of the column id changed",
		},
		"a domain": {
			create: "id code", insert: "('1')", change: "drop column id, add column id evil", then: "(row('1'))",
			code: pgguard.CodeChanged, finding: "the type of the column id changed",
		},
		"another domain": {
			create: "id code", insert: "('1')", change: "alter column id type code2", then: "('1')",
			code: pgguard.CodeChanged, finding: "the type of the column id changed",
		},
		"an enum": {
			create: "id colour", insert: "('red')", change: "drop column id, add column id evil", then: "(row('1'))",
			code: pgguard.CodeChanged, finding: "the type of the column id changed",
		},
		"a text that the session decides": {
			create: "id int", insert: "(1)", change: "alter column id type float8", then: "(1)",
			code: pgguard.CodeChanged, finding: "the type of the column id changed",
		},
		"gone": {
			create: "id text, n int", insert: "('1')", change: "drop column id", then: "(1)",
			code: "42703", finding: "the column id is gone",
		},
		"renamed": {
			create: "id text", insert: "('1')", change: "rename column id to code", then: "('1')",
			code: "42703", finding: "the column id is gone",
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, shadow := range []bool{false, true} {
				n++
				w.exec(t, "drop table if exists changed", "truncate fencegate.shadow_refusals, witness", "create table changed ("+s.create+")")
				w.grant(t, "changed")
				g := pgguard.Guard{Table: "changed", Prefix: "c:", Column: "id", Shadow: shadow}
				w.protect(t, g)
				before := w.app(t) // has looked at the old column
				tokens := []fencing.Token{w.raise(t, "c:1", n), w.raise(t, "c:red", n)}
				wantNil(t, "before", fenced(t, before, tokens, "insert into changed values "+s.insert))
				w.exec(t, "delete from fencegate.shadow_refusals", "alter table changed "+s.change)

				insert := "insert into changed values " + s.then
				count := "select count(*) from changed"
				rows := value[int](t, w.admin, count)
				if !shadow {
					wantCode(t, "insert", fenced(t, w.app(t), tokens, insert), s.code)
					wantCode(t, "delete", fenced(t, w.app(t), tokens, "delete from changed"), s.code)
					if fenced(t, before, tokens, insert) == nil {
						t.Error("a session that wrote before: not refused")
					}
					if got := value[int](t, w.admin, count); got != rows {
						t.Errorf("%d rows, want the %d there were", got, rows)
					}
				} else {
					wantNil(t, "shadow", fenced(t, w.app(t), tokens, insert, "delete from changed"))
					wantNil(t, "shadow, a session that wrote before", fenced(t, before, tokens, insert))
					if got := value[int](t, w.admin, "select count(*) from fencegate.shadow_refusals where code = 'ZF205' and resource is null"); got != 2 {
						t.Errorf("%d transactions noted, want 2", got)
					}
				}
				if got := value[int](t, w.admin, "select count(*) from witness"); got != 0 {
					t.Errorf("the owner's function was called %d times", got)
				}
				how := ": every write is refused; guard the table again"
				if shadow {
					how = ": it would refuse every write; guard the table again"
				}
				if got := findings(t, w); !slices.Contains(got, "public.changed: "+s.finding+how) {
					t.Errorf("findings %q, want %q", got, s.finding+how)
				}
			}
		})
	}
}

// TestColumnChangedBehindSnapshot: the transaction's view of the catalog is older than the table.
func TestColumnChangedBehindSnapshot(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(t, evil)
	for _, shadow := range []bool{false, true} {
		w.exec(t, "drop table if exists changed", "create table changed (id text)")
		w.grant(t, "changed")
		w.protect(t, pgguard.Guard{Table: "changed", Prefix: "c:", Column: "id", Shadow: shadow})
		err := in(t, w.app(t), pgx.RepeatableRead, func(tx pgx.Tx) error {
			value[int](t, tx, "select 1")
			w.exec(t, "alter table changed drop column id, add column id evil")
			return run(t, tx, "insert into changed values (row('1'))")
		})
		if shadow {
			wantNil(t, "shadow", err)
		} else {
			wantCode(t, "strict", err, pgguard.CodeChanged)
		}
	}
	if got := value[int](t, w.admin, "select count(*) from witness"); got != 0 {
		t.Errorf("the owner's function was called %d times", got)
	}
}

// TestAnotherTable: whoever owns a guarded table may make triggers of its guard, also on tables that
// it is not for.
func TestAnotherTable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(t, evil)
	c := w.app(t)
	tok := []fencing.Token{w.raise(t, "coupon:1", 1)}
	for _, shadow := range []bool{false, true} {
		w.exec(t, "drop table if exists bait, twin, parts", "create table bait (id evil)", "create table twin (id text)",
			"create table parts (id text) partition by list (id)", "create table parts_1 partition of parts default")
		w.protect(t, pgguard.Guard{Table: "coupons", Prefix: "coupon:", Column: "id", Shadow: shadow})
		guard := value[string](t, w.admin, "select tgfoid::regprocedure::text from pg_trigger where tgrelid = 'coupons'::regclass and tgname = 'fencegate_guard'")
		for _, table := range []string{"bait", "twin", "parts"} {
			w.exec(t, "create trigger fencegate_guard after insert on "+table+" for each row execute function "+guard)
			w.grant(t, table)
		}
		for _, sql := range []string{"insert into bait values (row('1'))", "insert into twin values ('1')", "insert into parts values ('1')"} {
			if err := fenced(t, c, tok, sql); shadow {
				wantNil(t, "shadow: "+sql, err)
			} else {
				wantCode(t, sql, err, pgguard.CodeChanged)
			}
		}
		wantNil(t, "the table itself", fenced(t, c, tok, update1))
		finding := "public.twin: its guard was made for another table, or before a dump that it was restored from: "
		if got := findings(t, w); !slices.ContainsFunc(got, func(f string) bool { return strings.HasPrefix(f, finding) }) {
			t.Errorf("findings %q, want %q", got, finding)
		}
		w.protect(t, pgguard.Guard{Table: "twin", Prefix: "coupon:", Column: "id"})
		wantNil(t, "guarded again", fenced(t, c, tok, "insert into twin values ('1')"))
	}
	for sql, want := range map[string]int{"select count(*) from witness": 0, "select count(*) from fencegate.shadow where code = 'ZF205'": 3} {
		if got := value[int](t, w.admin, sql); got != want {
			t.Errorf("%s: got %d, want %d", sql, got, want)
		}
	}

	// A guarded table with partitions that becomes a partition itself stays guarded.
	w.exec(t, "create table inner_1 (id text) partition by list (id); create table inner_2 partition of inner_1 default",
		"create table outer_1 (id text) partition by list (id)")
	w.protect(t, pgguard.Guard{Table: "inner_1", Prefix: "coupon:", Column: "id"})
	w.exec(t, "alter table outer_1 attach partition inner_1 default")
	w.grant(t, "outer_1")
	wantNil(t, "a partition of a partition", fenced(t, c, tok, "insert into outer_1 values ('1')"))
	wantCode(t, "a partition of a partition", fenced(t, c, nil, "insert into outer_1 values ('1')"), pgguard.CodeNoToken)
}

// TestCollations: which names are equal is not up to the collation of a column.
func TestCollations(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.app(t)
	lower, upper := w.raise(t, "k:abc", 1), w.raise(t, "k:ABC", 1)
	collations := []string{"POSIX", "C"}
	for _, name := range []string{"C.utf8", "und-x-icu", "nocase"} { // servers can be built without
		if name == "nocase" && slices.Contains(collations, "und-x-icu") {
			w.exec(t, "create collation nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false)")
		}
		if value[bool](t, w.admin, "select exists (select from pg_collation where collname = $1)", name) {
			collations = append(collations, name)
		}
	}
	for _, name := range collations {
		collation := `"` + name + `"`
		w.exec(t, "drop table if exists coll", "create table coll (id text collate "+collation+", n int)")
		w.grant(t, "coll")
		for _, shadow := range []bool{true, false} {
			w.protect(t, pgguard.Guard{Table: "coll", Prefix: "k:", Column: "id", Shadow: shadow})
			both := []fencing.Token{lower, upper}
			wantNil(t, collation, fenced(t, c, both, "insert into coll values ('abc')", "update coll set n = 1", "update coll set id = 'ABC'", "delete from coll"))
		}
		wantNil(t, collation, fenced(t, c, []fencing.Token{lower}, "insert into coll values ('abc')"))
		const take = "update coll set id = 'ABC'"
		wantCode(t, collation+": the old name's token", fenced(t, c, []fencing.Token{lower}, take), pgguard.CodeNoToken)
		wantCode(t, collation+": the new name's token", fenced(t, c, []fencing.Token{upper}, take), pgguard.CodeNoToken)
		wantCode(t, collation+": no token", fenced(t, c, nil, "delete from coll"), pgguard.CodeNoToken)
		wantCode(t, collation+": no name", fenced(t, c, nil, "insert into coll values ('ä')"), pgguard.CodeNoResource)
	}
}
