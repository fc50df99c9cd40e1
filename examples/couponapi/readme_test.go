//go:build unix

package main

import (
	"context"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/internal/readme"
	"github.com/fencegate/fencegate/internal/testenv"
)

// TestReadme runs the shell blocks of the README in one shell, and compares what each prints with
// the block that follows it.
func TestReadme(t *testing.T) {
	t.Parallel()
	sessions := readme.Sessions(t, "README.md", 4)
	addr := testenv.FreeAddress(t) // not everybody's 8090
	here := strings.NewReplacer("127.0.0.1:8090", addr, "--payment-delay", "--listen "+addr+" --payment-delay", "--for 10s", "--for 3s")
	scripts := make([]string, len(sessions))
	for i, s := range sessions {
		scripts[i] = here.Replace(s.Script)
	}
	got := readme.Run(t, "../..", []string{"TMPDIR=" + t.TempDir()}, scripts...)
	last := len(sessions) - 1
	got[last], sessions[last].Output = uncounted(got[last]), uncounted(sessions[last].Output)
	for i, s := range sessions {
		if got[i] != s.Output {
			t.Errorf("block %d: got\n%s\nwant\n%s", i, got[i], s.Output)
		}
	}
}

// uncounted takes out what hangs on chance.
func uncounted(s string) string { return regexp.MustCompile(`\s*\d+`).ReplaceAllString(s, " N") }

// TestPlainUpdate runs the README's statement from many goroutines: it needs no lock.
func TestPlainUpdate(t *testing.T) {
	t.Parallel()
	statement := readme.Blocks(t, "README.md", 1, "sql")[0]
	pool, err := pgxpool.New(t.Context(), testenv.SharedPostgres(t).NewDatabase(t))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if _, err := pool.Exec(t.Context(), "create table coupons (id text primary key, n int)"); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), "insert into coupons values ('42', 13)"); err != nil {
		t.Fatal(err)
	}
	var sold int64
	var mu sync.Mutex
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			tag, err := pool.Exec(context.WithoutCancel(t.Context()), statement, "42")
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			sold += tag.RowsAffected()
		})
	}
	all.Wait()
	var left int64
	if err := pool.QueryRow(t.Context(), "select n from coupons").Scan(&left); err != nil {
		t.Fatal(err)
	}
	if sold != 13 || left != 0 {
		t.Errorf("got %d sold and %d left, want 13 and 0", sold, left)
	}
}
