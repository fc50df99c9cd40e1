package migrations_test

import (
	"database/sql"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/migrations"
)

// catalog is all that a step can have changed in the schema, a line each.
const catalog = `
select line from (
	select 'function ' || pg_get_functiondef(p.oid) || ' ' || coalesce(p.proacl::text, '') from pg_proc p
		where p.pronamespace = 'fencegate'::regnamespace
	union all select format('column %s.%s %s %s %s %s %s', a.attrelid::regclass, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
			a.attidentity, pg_get_expr(d.adbin, d.adrelid), col_description(a.attrelid, a.attnum))
		from pg_attribute a join pg_class c on c.oid = a.attrelid left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
		where c.relnamespace = 'fencegate'::regnamespace and a.attnum > 0 and not a.attisdropped
	union all select format('relation %s %s %s %s', c.oid::regclass, c.relkind, c.relacl, c.reloptions) from pg_class c
		where c.relnamespace = 'fencegate'::regnamespace
	union all select format('constraint %s %s %s', c.conrelid::regclass, c.conname, pg_get_constraintdef(c.oid)) from pg_constraint c
		where c.connamespace = 'fencegate'::regnamespace
) as all_of_it (line) order by line`

func look(t *testing.T, db *sql.DB) (lines []string) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), catalog)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, line)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return lines
}

// TestStepDownRestores: a step that was taken back leaves what was there before it, to the
// letter.
func TestStepDownRestores(t *testing.T) {
	t.Parallel()
	db := connect(t, "pgx", testenv.SharedPostgres(t).NewDatabase(t))
	for _, m := range migrations.All(migrations.Postgres) {
		up, down, err := migrations.SQL(migrations.Postgres, m.Name)
		if err != nil {
			t.Fatal(err)
		}
		if m.Version > 1 {
			before := look(t, db)
			exec(t, db, up, down)
			after := look(t, db)
			if got, want := strings.Join(after, "\n"), strings.Join(before, "\n"); got != want {
				for i := range min(len(after), len(before)) {
					if after[i] != before[i] {
						t.Errorf("%s, up and down: got\n%s\nwant\n%s", m.Name, after[i], before[i])
						break
					}
				}
				t.Errorf("%s, up and down: %d objects, want %d as they were", m.Name, len(after), len(before))
			}
		}
		exec(t, db, up)
	}
}
