package lab_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/internal/lab"
	"github.com/fencegate/fencegate/internal/pgtx/pgtxtest"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/locking/pglock"
	"github.com/fencegate/fencegate/locking/redislock"
	"github.com/fencegate/fencegate/storage/pgstore"
	"github.com/fencegate/fencegate/storage/redisstore"
	"github.com/fencegate/fencegate/storage/sqlitestore"
)

// onSQLite is a lab whose store is a file.
func onSQLite(tb testing.TB) lab.Options {
	tb.Helper()
	store, err := sqlitestore.Open(tb.Context(), filepath.Join(tb.TempDir(), "lab.db"), nil)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = store.Close() })
	o := inMemory()
	o.Store = store
	return o
}

func onRedis(tb testing.TB) lab.Options {
	tb.Helper()
	client := redis.NewClient(&redis.Options{Addr: testenv.SharedRedis(tb).Addr(), MaxRetries: -1})
	tb.Cleanup(func() { _ = client.Close() })
	lock, err := redislock.New(client, nil)
	if err != nil {
		tb.Fatal(err)
	}
	store, err := redisstore.New(tb.Context(), client, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return lab.Options{Lock: lock, Store: store, Forget: func(ctx context.Context, resource string) error {
		return client.Del(ctx, "fencegate:{"+resource+"}:lock", "fencegate:{"+resource+"}:counter").Err()
	}}
}

func onPostgres(tb testing.TB) lab.Options {
	tb.Helper()
	pool := pgtxtest.Open(tb, pgtxtest.Database(tb), pgstore.Configure)
	lock, err := pglock.New(tb.Context(), pool, nil)
	if err != nil {
		tb.Fatal(err)
	}
	store, err := pgstore.New(tb.Context(), pool, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return lab.Options{Lock: lock, Store: store, Forget: func(ctx context.Context, resource string) error {
		_, err := pool.Exec(ctx, "DELETE FROM fencegate.locks WHERE resource = $1", resource)
		return err
	}}
}

// TestChapters plays every chapter to its end: what it promises its readers is what comes.
func TestChapters(t *testing.T) {
	t.Parallel()
	chapters, err := lab.Chapters()
	if err != nil {
		t.Fatal(err)
	}
	if len(chapters) == 0 {
		t.Fatal("there are no chapters")
	}
	for name, options := range map[string]func(testing.TB) lab.Options{
		"memory-memory": func(testing.TB) lab.Options { return inMemory() },
		"memory-sqlite": onSQLite, "redis-redis": onRedis, "postgres-postgres": onPostgres,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, options(t))
			for _, c := range chapters {
				t.Run(c.Slug, func(t *testing.T) {
					t.Parallel()
					play(&bench{t, b.lab, b.url}, c)
				})
			}
		})
	}
}

// TestWrongChapters are refused, each with what is wrong.
func TestWrongChapters(t *testing.T) {
	t.Parallel()
	const step = `{"say":"x","command":{"actor":"A","action":"read"},"expect":{}%s}`
	chapter := func(slug, more string) string {
		return fmt.Sprintf(`{"slug":%q,"title":"t","lead":"l","takeaway":"w","parts":[{"title":"p","mode":"grant","steps":[`+step+`]}]}`, slug, more)
	}
	good := chapter("one", `,"predict":{"ask":"?","answers":["a","b"],"right":1,"why":"w"}`)
	if c, err := lab.LoadChapters(fstest.MapFS{"c/01-one.json": {Data: []byte(good)}}, "c"); err != nil || len(c) != 1 {
		t.Fatalf("got %v, %v", c, err)
	}
	for want, files := range map[string]fstest.MapFS{
		"unknown field":        {"c/01-one.json": {Data: []byte(chapter("one", `,"more":1`))}},
		"another chapter":      {"c/01-one.json": {Data: []byte(good)}, "c/02-one.json": {Data: []byte(good)}},
		"as in the file's":     {"c/01-two.json": {Data: []byte(good)}},
		"must be like":         {"c/one.json": {Data: []byte(good)}},
		"right answer is 2":    {"c/01-one.json": {Data: []byte(chapter("one", `,"predict":{"ask":"?","answers":["a","b"],"right":2,"why":"w"}`))}},
		"1 answers":            {"c/01-one.json": {Data: []byte(chapter("one", `,"predict":{"ask":"?","answers":["a"],"right":0,"why":"w"}`))}},
		"there is more":        {"c/01-one.json": {Data: []byte(good + "{}")}},
		"parts, or is":         {"c/01-one.json": {Data: []byte(`{"slug":"one","title":"t","lead":"l","takeaway":"w","parts":[]}`)}},
		"title and steps":      {"c/01-one.json": {Data: []byte(`{"slug":"one","title":"t","lead":"l","takeaway":"w","parts":[{"title":"p","mode":"grant","steps":[]}]}`)}},
		"must say something":   {"c/01-one.json": {Data: []byte(`{"slug":"one","title":"","lead":"l","takeaway":"w","parts":[]}`)}},
		"A, B or operator":     {"c/01-one.json": {Data: []byte(strings.Replace(good, `"A"`, `"C"`, 1))}},
		"none, lock, writes":   {"c/01-one.json": {Data: []byte(strings.Replace(good, `"grant"`, `"all"`, 1))}},
		"done, waiting or par": {"c/01-one.json": {Data: []byte(strings.Replace(good, `"expect":{}`, `"expect":{"status":"x"}`, 1))}},
	} {
		if _, err := lab.LoadChapters(files, "c"); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "c/") {
			t.Errorf("%s: got %v", want, err)
		}
	}
}
