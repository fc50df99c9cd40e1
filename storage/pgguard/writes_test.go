package pgguard_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/storage/pgguard"
)

// write is one way to write to a guarded table. T is the table, a table of its own with the rows
// 1 to 3; X stands for its name in others.
type write struct {
	name    string
	table   string // how it is made, if not as usual
	prepare string // by the owner
	after   string // by the owner, behind protect
	sql     string // by the application
	copies  bool   // COPY FROM a row with id 7
	ids     []string
	check   string // what is true after it, and not before
}

const partitioned = `create table T (id int, n int default 0, primary key (id)) partition by range (id);
	create table X_low partition of T for values from (1) to (100);
	create table X_high partition of T for values from (100) to (200) partition by range (id);
	create table X_high_1 partition of X_high for values from (100) to (150);
	insert into T select generate_series(1, 3);`

const mover = `create function X_f() returns trigger language plpgsql as 'begin if new.n = 77 then new.id := ''3''; end if; return new; end';
	create trigger zzz_last before insert or update on T for each row execute function X_f();`

var writes = []write{
	{name: "insert", sql: "insert into T values ('7')", ids: []string{"7"}, check: "exists (select from T where id = '7')"},
	{name: "insert of several", sql: "insert into T values ('7'), ('8')", ids: []string{"7", "8"}, check: "exists (select from T where id = '8')"},
	{name: "insert select", sql: "insert into T select '7'", ids: []string{"7"}, check: "exists (select from T where id = '7')"},
	{name: "update", sql: "update T set n = 9 where id = '1'", ids: []string{"1"}, check: "exists (select from T where id = '1' and n = 9)"},
	{name: "update of several", sql: "update T set n = 9", ids: []string{"1", "2", "3"}, check: "exists (select from T where n = 9)"},
	{name: "update that moves", sql: "update T set id = '7' where id = '1'", ids: []string{"1", "7"}, check: "exists (select from T where id = '7')"},
	{name: "delete", sql: "delete from T where id = '1'", ids: []string{"1"}, check: "not exists (select from T where id = '1')"},
	{name: "copy", copies: true, ids: []string{"7"}, check: "exists (select from T where id = '7')"},
	{name: "upsert that inserts", sql: "insert into T values ('7', 9) on conflict (id) do update set n = excluded.n", ids: []string{"7"}, check: "exists (select from T where id = '7')"},
	{name: "upsert that updates", sql: "insert into T values ('1', 9) on conflict (id) do update set n = excluded.n", ids: []string{"1"}, check: "exists (select from T where n = 9)"},
	{name: "merge that updates", sql: "merge into T as t using (select '1' as id) s on t.id = s.id when matched then update set n = 9", ids: []string{"1"}, check: "exists (select from T where n = 9)"},
	{name: "merge that inserts", sql: "merge into T as t using (select '7' as id) s on t.id = s.id when not matched then insert values (s.id, 9)", ids: []string{"7"}, check: "exists (select from T where n = 9)"},
	{name: "common table expression", sql: "with d as (delete from T where id = '1' returning id) select * from d", ids: []string{"1"}, check: "not exists (select from T where id = '1')"},
	{name: "view", prepare: "create view X_v as select * from T; grant all on X_v to R;", sql: "update X_v set n = 9 where id = '1'", ids: []string{"1"}, check: "exists (select from T where n = 9)"},
	{name: "view with an INSTEAD OF trigger", prepare: `create view X_v as select * from T; grant all on X_v to R;
		create function X_f() returns trigger language plpgsql security definer as 'begin update T set n = 9 where id = old.id; return null; end';
		create trigger t instead of update on X_v for each row execute function X_f();`, sql: "update X_v set n = 1 where id = '1'", ids: []string{"1"}, check: "exists (select from T where n = 9)"},
	{name: "rule", prepare: "create view X_v as select 1 as a; create rule r as on update to X_v do instead update T set n = 9 where id = '1'; grant all on X_v to R;", sql: "update X_v set a = 2", ids: []string{"1"}, check: "exists (select from T where n = 9)"},
	{name: "function of the owner", prepare: "create function X_f() returns void language sql security definer as 'update T set n = 9 where id = ''1''';", sql: "select X_f()", ids: []string{"1"}, check: "exists (select from T where n = 9)"},
	{name: "trigger of another table", prepare: `create table X_o (a int); grant all on X_o to R;
		create function X_f() returns trigger language plpgsql as 'begin update T set n = 9 where id = ''1''; return null; end';
		create trigger t after insert on X_o for each row execute function X_f();`, sql: "insert into X_o values (1)", ids: []string{"1"}, check: "exists (select from T where n = 9)"},
	{name: "cascade of a delete", prepare: "create table X_p (id text primary key); insert into X_p values ('1'), ('2'), ('3'); alter table T add foreign key (id) references X_p on delete cascade on update cascade; grant all on X_p to R;", sql: "delete from X_p where id = '1'", ids: []string{"1"}, check: "not exists (select from T where id = '1')"},
	{name: "cascade of an update", prepare: "create table X_p (id text primary key); insert into X_p values ('1'), ('2'), ('3'); alter table T add foreign key (id) references X_p on delete cascade on update cascade; grant all on X_p to R;", sql: "update X_p set id = '7' where id = '1'", ids: []string{"1", "7"}, check: "exists (select from T where id = '7')"},
	{name: "insert that a BEFORE trigger moves", prepare: "delete from T where id = '3';" + mover, sql: "insert into T values ('7', 77)", ids: []string{"3"}, check: "exists (select from T where id = '3')"},
	{name: "update that a BEFORE trigger moves", prepare: "delete from T where id = '3';" + mover, sql: "update T set n = 77 where id = '1'", ids: []string{"1", "3"}, check: "exists (select from T where id = '3')"},
	{name: "update that a later BEFORE trigger moves", prepare: "delete from T where id = '3';", after: mover, sql: "update T set n = 77 where id = '1'", ids: []string{"1", "3"}, check: "exists (select from T where id = '3')"},
	{name: "partition through its parent", table: partitioned, sql: "update T set n = 9 where id = 1", ids: []string{"1"}, check: "exists (select from T where n = 9)"},
	{name: "partition", table: partitioned, prepare: "grant all on X_low to R;", sql: "update X_low set n = 9 where id = 1", ids: []string{"1"}, check: "exists (select from T where n = 9)"},
	{name: "partition of a partition", table: partitioned, prepare: "grant all on X_high_1 to R;", sql: "insert into X_high_1 values (101)", ids: []string{"101"}, check: "exists (select from T where id = 101)"},
	{name: "move to another partition", table: partitioned, sql: "update T set id = 101 where id = 1", ids: []string{"1", "101"}, check: "exists (select from T where id = 101)"},
	{
		name: "partition attached later, through its parent", table: partitioned, after: "create table X_late (like T including all); alter table T attach partition X_late for values from (200) to (300);",
		sql: "insert into T values (201)", ids: []string{"201"}, check: "exists (select from T where id = 201)",
	},
	{
		name: "partition attached later", table: partitioned, after: "create table X_late (n int, id int primary key); alter table T attach partition X_late for values from (200) to (300); grant all on X_late to R;",
		sql: "insert into X_late (id) values (201)", ids: []string{"201"}, check: "exists (select from T where id = 201)",
	},
}

// do carries the write out.
func (s *write) do(ctx context.Context, tx pgx.Tx, table string) error {
	if s.copies {
		_, err := tx.CopyFrom(ctx, pgx.Identifier{table}, []string{"id"}, pgx.CopyFromRows([][]any{{"7"}}))
		return err
	}
	_, err := tx.Exec(ctx, s.fill(s.sql, table, ""))
	return err
}

func (*write) fill(sql, table, role string) string {
	for _, r := range []struct{ from, to string }{{"T", table}, {"R", role}} {
		for _, end := range []string{" ", ";", ""} {
			if end == "" {
				if strings.HasSuffix(sql, " "+r.from) {
					sql = strings.TrimSuffix(sql, r.from) + r.to
				}
				continue
			}
			sql = strings.ReplaceAll(sql, " "+r.from+end, " "+r.to+end)
		}
	}
	return strings.ReplaceAll(sql, "X_", table+"_")
}

// TestWrites: each way to write is refused without the token of every row that it writes, and
// passes with them.
func TestWrites(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i, s := range writes {
		table := fmt.Sprintf("t%d", i)
		if s.table == "" {
			s.table = "create table T (id text primary key, n int default 0); insert into T select generate_series(1, 3);"
		}
		w.exec(t, s.fill(" "+s.table, table, w.role), s.fill(" "+s.prepare, table, w.role))
		w.grant(t, table)
		w.protect(t, pgguard.Guard{Table: "public." + table, Prefix: table + ":", Column: "id"})
	}
	merges := value[int](t, w.admin, "select current_setting('server_version_num')::int") >= 150000
	for i, s := range writes {
		if strings.HasPrefix(s.name, "merge") && !merges {
			continue // there is no such statement to be refused
		}
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			table := fmt.Sprintf("t%d", i)
			w.exec(t, s.fill(" "+s.after, table, w.role))
			c := w.app(t)
			resource := func(id string) string { return table + ":" + id }
			write := func(tx pgx.Tx) error { return s.do(t.Context(), tx, table) }
			with := func(tokens ...fencing.Token) error {
				return in(t, c, pgx.ReadCommitted, func(tx pgx.Tx) error {
					for _, tok := range tokens {
						if _, err := tx.Exec(t.Context(), "select fencegate.enter($1, $2)", tok.Resource, tok.Text()); err != nil {
							return err
						}
					}
					return write(tx)
				})
			}
			hand := func(tokens []fencing.Token, text string) error {
				return in(t, c, pgx.ReadCommitted, func(tx pgx.Tx) error {
					var all strings.Builder
					for _, tok := range tokens {
						fmt.Fprintf(&all, ",%s=%s", tok.Resource, text)
					}
					if _, err := tx.Exec(t.Context(), "select set_config('fencegate.tokens', $1, true)", all.String()+","); err != nil {
						return err
					}
					return write(tx)
				})
			}
			var ended []fencing.Token
			for _, id := range s.ids {
				tok := w.raise(t, resource(id), 32)
				wantNil(t, "retire", w.fence.Retire(t.Context(), tok))
				ended = append(ended, tok)
			}
			wantCode(t, "a retired token", with(ended...), pgguard.CodeRetired)
			wantCode(t, "a retired token by hand", hand(ended, ended[0].Text()), pgguard.CodeRetired)
			wantCode(t, "a plain number after the release", hand(ended, "32"), pgguard.CodeGrantRequired)
			wantCode(t, "an empty grant after the release", hand(ended, "32."), pgguard.CodeShape)

			var old, tokens []fencing.Token
			for _, id := range s.ids {
				old = append(old, w.raise(t, resource(id), 33))
			}
			for _, id := range s.ids {
				tokens = append(tokens, w.raise(t, resource(id), 34))
			}
			other := w.raise(t, resource("99"), 34)
			wantCode(t, "no token", with(), pgguard.CodeNoToken)
			wantCode(t, "another resource's token", with(other), pgguard.CodeNoToken)
			for i := range tokens {
				if len(tokens) > 1 {
					rest := append(append([]fencing.Token{other}, tokens[:i]...), tokens[i+1:]...)
					wantCode(t, "all tokens but one", with(rest...), pgguard.CodeNoToken)
				}
			}
			wantCode(t, "a stale token", with(old...), pgguard.CodeSuperseded)
			wantCode(t, "a stale token by hand", hand(tokens, old[0].Text()), pgguard.CodeSuperseded)
			wantCode(t, "a made-up grant by hand", hand(tokens, "34."+fencing.NewGrant()), pgguard.CodeDuplicate)
			wantCode(t, "a plain number by hand", hand(tokens, "34"), pgguard.CodeGrantRequired)
			wantCode(t, "an empty grant by hand", hand(tokens, "34."), pgguard.CodeShape)
			if got := value[bool](t, w.admin, "select "+s.fill(" "+s.check, table, "")); got {
				t.Error("a refused write is there")
			}
			wantNil(t, "with its tokens", with(tokens...))
			if got := value[bool](t, w.admin, "select "+s.fill(" "+s.check, table, "")); !got {
				t.Error("the write is not there")
			}
		})
	}
}
