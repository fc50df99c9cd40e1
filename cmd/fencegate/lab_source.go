package main

import (
	"context"
	_ "embed"
	"io/fs"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/internal/trace"
	"github.com/fencegate/fencegate/locking/memlock"
	"github.com/fencegate/fencegate/locking/pglock"
	"github.com/fencegate/fencegate/locking/redislock"
	"github.com/fencegate/fencegate/locking/redlock"
	"github.com/fencegate/fencegate/storage/pgstore"
	"github.com/fencegate/fencegate/storage/redisstore"
	"github.com/fencegate/fencegate/storage/sqlitestore"
)

// decided says by which statement or script a lock or a store decides, and by which function in
// Postgres that one calls; in Go, by which function of the file, as it begins.
type decided struct{ file, function string }

// sourceOf is what decides in a kind of lock ("lock") or store ("store").
type sourceOf struct {
	language string
	files    fs.FS
	by       map[string]decided // by the lab's actions
}

func sourcesOf(place, kind string) sourceOf {
	switch place + " " + kind {
	case "lock memory":
		hold := decided{"memlock.go", "func (b *Backend) onHold("}
		return sourceOf{"go", memlock.Sources(), map[string]decided{
			"acquire": {"memlock.go", "func (b *Backend) try("}, "renew": hold, "release": hold, "evict": hold,
		}}
	case "lock redis":
		return sourceOf{"lua", redislock.Sources(), map[string]decided{
			"acquire": {"acquire.lua", ""}, "renew": {"renew.lua", ""}, "release": {"release.lua", ""}, "evict": {"evict.lua", ""},
		}}
	case "lock redlock":
		return sourceOf{"lua", redlock.Sources(), map[string]decided{
			"acquire": {"grant.lua", ""}, "renew": {"renew.lua", ""}, "release": {"release.lua", ""}, "evict": {"abort.lua", ""},
		}}
	case "lock postgres":
		return sourceOf{"sql", pglock.Sources(), map[string]decided{
			"acquire": {"sql/acquire.sql", "lock_join"}, "renew": {"sql/renew.sql", "lock_renew"},
			"release": {"sql/release.sql", "lock_release"}, "evict": {"sql/evict.sql", "lock_evict"},
		}}
	case "store redis":
		return sourceOf{"lua", redisstore.Sources(), map[string]decided{
			"raise": {"raise.lua", ""}, "read": {"getfenced.lua", ""}, "write": {"rule.lua", ""}, "commit": {"carry.lua", ""}, "evict": {"evict.lua", ""},
		}}
	case "store postgres":
		return sourceOf{"sql", pgstore.Sources(), map[string]decided{
			"raise": {"sql/raise.sql", "raise"}, "read": {"sql/get_fenced.sql", ""}, "write": {"sql/put_one.sql", ""},
			"commit": {"sql/lock.sql", ""}, "evict": {"sql/evict.sql", "evict"},
		}}
	case "store sqlite":
		return sourceOf{"sql", sqlitestore.Sources(), map[string]decided{
			"raise": {"sql/set_mark.sql", ""}, "read": {"sql/get_fenced.sql", ""}, "write": {"sql/put_fenced.sql", ""},
			"commit": {"sql/mark.sql", ""}, "evict": {"sql/set_mark.sql", ""},
		}}
	}
	return sourceOf{}
}

// currentGo is the rule where there is neither SQL nor Lua, from fencing/mark.go.
const currentGo = `func (m Mark) Current(t Token) error {
	switch {
	case t.Number < m.Number:
		return m.stale(t, Superseded)
	case t.Number > m.Number:
		return m.stale(t, Ungranted)
	case m.Retired:
		return m.stale(t, Retired)
	case t.Grant != m.Grant:
		return m.stale(t, Duplicate)
	}
	return nil
}
`

//go:embed sql/function_source.sql
var functionSourceSQL string

// labSource finds what decides in the configured lock and store. Of functions in Postgres it shows the
// text that this database has.
func (f backendFlags) labSource(ctx context.Context, pool *pgxpool.Pool) func(place, action string) *trace.Source {
	found := map[[2]string]*trace.Source{}
	for place, kind := range map[string]string{"lock": f.Lock, "store": f.Store} {
		s := sourcesOf(place, kind)
		for action, d := range s.by {
			text, err := fs.ReadFile(s.files, d.file)
			if err != nil {
				continue // a test finds every one of them
			}
			source := &trace.Source{Language: s.language, Name: d.file[strings.LastIndex(d.file, "/")+1:], Text: string(text)}
			switch {
			case s.language == "go":
				source.Text = goFunction(source.Text, d.function)
			case d.function != "" && pool != nil:
				source.Text += functionText(ctx, pool, d.function)
			}
			found[[2]string{place, action}] = source
		}
	}
	if f.Store == "memory" {
		for _, action := range []string{"raise", "read", "write", "commit", "evict"} {
			found[[2]string{"store", action}] = &trace.Source{Language: "go", Name: "fencing/mark.go", Text: currentGo}
		}
	}
	return func(place, action string) *trace.Source { return found[[2]string{place, action}] }
}

// goFunction cuts a function out of a file.
func goFunction(text, begins string) string {
	_, rest, _ := strings.Cut(text, begins)
	body, _, _ := strings.Cut(rest, "\n}\n")
	return begins + body + "\n}\n"
}

// functionText is empty where the database does not tell: the statement is shown without it then.
func functionText(ctx context.Context, pool *pgxpool.Pool, name string) string {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var text string
	if err := pool.QueryRow(ctx, functionSourceSQL, name).Scan(&text); err != nil {
		return ""
	}
	return "\n" + text
}
