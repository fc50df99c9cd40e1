//go:build unix

package main

import (
	"context"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/internal/testenv"
)

func blocks(t *testing.T, kinds string) [][]string {
	t.Helper()
	page, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	return regexp.MustCompile("(?ms)^```("+kinds+")\n(.*?)^```$").FindAllStringSubmatch(string(page), -1)
}

// TestReadme runs the shell blocks of the README in one shell, and compares what each prints with
// the block that follows it.
func TestReadme(t *testing.T) {
	t.Parallel()
	const end = "--- end of block ---\n"
	var script strings.Builder
	var want []string
	for _, b := range blocks(t, "sh|text") {
		if b[1] == "sh" {
			script.WriteString(b[2] + "printf -- '" + strings.TrimSuffix(end, "\n") + "\\n'\n")
			want = append(want, "")
			continue
		}
		want[len(want)-1] = b[2]
	}
	if len(want) != 4 {
		t.Fatalf("the README has %d shell blocks, want 4", len(want))
	}
	addr := testenv.FreeAddress(t) // not everybody's 8090
	commands := strings.NewReplacer("127.0.0.1:8090", addr, "--payment-delay", "--listen "+addr+" --payment-delay", "--for 10s", "--for 3s").Replace(script.String())
	cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", commands)
	cmd.Dir = "../.."
	cmd.Env = append(os.Environ(), "no_proxy=127.0.0.1", "NO_PROXY=127.0.0.1", "TMPDIR="+t.TempDir())
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s%s", err, out, errs.String())
	}
	got := strings.Split(string(out), end)
	if len(got) != len(want)+1 {
		t.Fatalf("%d blocks have run, want %d:\n%s", len(got)-1, len(want), out)
	}
	last := len(want) - 1
	got[last], want[last] = uncounted(got[last]), uncounted(want[last])
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("block %d: got\n%s\nwant\n%s", i, got[i], want[i])
		}
	}
}

// uncounted takes out what hangs on chance.
func uncounted(s string) string { return regexp.MustCompile(`\s*\d+`).ReplaceAllString(s, " N") }

// TestPlainUpdate runs the README's statement from many goroutines: it needs no lock.
func TestPlainUpdate(t *testing.T) {
	t.Parallel()
	statements := blocks(t, "sql")
	if len(statements) != 1 {
		t.Fatalf("the README has %d blocks of SQL, want 1", len(statements))
	}
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
			tag, err := pool.Exec(context.WithoutCancel(t.Context()), statements[0][2], "42")
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
