package browsertest_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/fencegate/fencegate/internal/lab"
	"github.com/fencegate/fencegate/internal/trace"
	"github.com/fencegate/fencegate/locking/memlock"
	"github.com/fencegate/fencegate/storage/sqlitestore"
)

// serve starts a lab over a lock in memory and an SQLite file, mounted at /lab/ of a server on the
// loopback interface, and returns the page's address.
func serve(t *testing.T) string {
	t.Helper()
	store, err := sqlitestore.Open(t.Context(), filepath.Join(t.TempDir(), "lab.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	lock := memlock.New()
	l, err := lab.New(lab.Options{
		Lock: lock, Store: store, LockName: "memory", StoreName: "sqlite", Version: "v0.0.0-test",
		Forget: func(_ context.Context, resource string) error { lock.Forget(resource); return nil },
		Source: source, Sessions: 500,
	})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/lab/", http.StripPrefix("/lab", l))
	srv := httptest.NewServer(mux)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		srv.CloseClientConnections()
		if err := l.Close(ctx); err != nil {
			t.Error(err)
		}
		srv.Close()
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return srv.URL + "/lab/"
}

// source is a text of two languages to show beside the events.
func source(place, action string) *trace.Source {
	if place == "lock" {
		return &trace.Source{Language: "go", Name: "memlock.go", Text: "// " + action + "\nfunc (b *Backend) grant(r locking.Request) (locking.Hold, error) {\n\treturn b.shard(r.Resource).grant(r)\n}\n"}
	}
	return &trace.Source{Language: "sql", Name: action + ".sql", Text: "-- " + action + "\nSELECT number, retired FROM marks WHERE resource = ?1 AND (number > ?2 OR number = ?2 AND (retired OR grant_id <> ?3))\n"}
}
