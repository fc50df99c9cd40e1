//go:build unix

package main

import (
	"context"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/internal/readme"
	"github.com/fencegate/fencegate/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

const root = "../.."

// TestReadme follows the README on a database that knows nothing of fencegate, and compares what
// is printed.
func TestReadme(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t, nil) // of its own: roles belong to the whole server
	owner := server.NewDatabase(t)
	schema, err := os.ReadFile("schema.sql")
	if err != nil {
		t.Fatal(err)
	}
	exec0(t, owner, "create role shop login", string(schema))

	bin := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(bin, "fencegate"), "./cmd/fencegate")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for i, session := range readme.Sessions(t, "README.md", 2) {
		script := strings.Replace(session.Script, "go run ./examples/existing-table ", "go run ./examples/existing-table --python "+python(t)+" ", 1)
		got := readme.Run(t, root, []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "OWNER_URL=" + owner, "SHOP_URL=" + as(t, owner, "shop")}, script)[0]
		if i == 1 && got != session.Output { // what the first one prints has times in it
			t.Errorf("got\n%s\nwant\n%s", got, session.Output)
		}
	}
}

func exec0(t *testing.T, url string, statements ...string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	for _, s := range statements {
		if _, err := conn.Exec(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

// as returns the URL of the same database for another role.
func as(t *testing.T, raw, role string) string {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.User(role)
	return u.String()
}

// python returns an interpreter that has psycopg2: the first in the path may be another than
// that of the system's packages.
func python(t *testing.T) string {
	t.Helper()
	for _, p := range []string{"python3", "/usr/bin/python3"} {
		if exec.CommandContext(t.Context(), p, "-c", "import psycopg2").Run() == nil {
			return p
		}
	}
	t.Fatal("no Python with psycopg2: make deps installs it")
	return ""
}
