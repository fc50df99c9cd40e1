//go:build unix

package main

import (
	"context"
	"net/http/httptest"
	"regexp"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/gateway"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/locking/memlock"
	"github.com/fencegate/fencegate/storage"
	"github.com/fencegate/fencegate/storage/memstore"
)

// TestClientScripts runs the commands that talk to a gateway, or to servers of their own.
func TestClientScripts(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{"exec", "lock", "records"} {
		t.Run(dir, func(t *testing.T) {
			t.Parallel()
			testscript.Run(t, testscript.Params{
				Dir:                 "testdata/script/" + dir,
				RequireExplicitExec: true,
				RequireUniqueNames:  true,
				Cmds: map[string]func(*testscript.TestScript, bool, []string){
					"status": statusCmd, "gateway": gatewayCmd, "until": untilCmd, "save": saveCmd,
					"redis": redisCmd, "migrated": migratedCmd, "closedport": closedPortCmd, "silentport": silentPortCmd,
				},
				Setup: func(e *testscript.Env) error {
					e.Values[tbKey{}] = e.T()
					e.Setenv("GORACE", quickExit)
					return nil
				},
			})
		})
	}
}

// rig is a gateway in this process, over a lock and a store in memory.
type rig struct {
	url    string
	issuer *locking.LocalIssuer
	store  *storage.Store
}

func newRig(tb testing.TB, mode fencing.Mode) *rig {
	tb.Helper()
	feed, err := gateway.NewFeed(1000)
	if err != nil {
		tb.Fatal(err)
	}
	store, err := storage.New(memstore.New(nil), &storage.Options{Mode: mode, OnEvent: feed.Add})
	if err != nil {
		tb.Fatal(err)
	}
	issuer, err := locking.NewIssuer(memlock.New(), []fencing.Fence{store}, &locking.IssuerOptions{Poll: 5 * time.Millisecond, OnEvent: feed.Add})
	if err != nil {
		tb.Fatal(err)
	}
	g, err := gateway.New(gateway.Options{Issuer: issuer, Store: store, Feed: feed})
	if err != nil {
		tb.Fatal(err)
	}
	srv := httptest.NewServer(g)
	tb.Cleanup(func() {
		srv.CloseClientConnections() // a watcher's stream has no end
		srv.Close()
	})
	return &rig{url: srv.URL, issuer: issuer, store: store}
}

// take takes a lock, which lasts for a minute.
func (r *rig) take(tb testing.TB, resource string) fencing.Token {
	tb.Helper()
	g, err := r.issuer.Grant(tb.Context(), locking.Request{Resource: resource, Grant: fencing.NewGrant(), TTL: time.Minute, Label: "the test"})
	if err != nil {
		tb.Fatal(err)
	}
	return g.Token
}

// status is a lock's.
func (r *rig) status(tb testing.TB, resource string) locking.Status {
	tb.Helper()
	st, err := r.issuer.Status(context.WithoutCancel(tb.Context()), resource)
	if err != nil {
		tb.Fatal(err)
	}
	return st
}

// gatewayCmd is "gateway [classic]": it starts a gateway and puts its URL into $FENCEGATE_URL.
func gatewayCmd(ts *testscript.TestScript, _ bool, args []string) {
	mode := fencing.Strict
	if len(args) == 1 && args[0] == "classic" {
		mode = fencing.Classic
	}
	ts.Setenv("FENCEGATE_URL", newRig(ts.Value(tbKey{}).(testing.TB), mode).url)
}

// untilCmd is "until PATTERN program args...": it runs the program again and again until what it
// prints fits the pattern.
func untilCmd(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: until PATTERN program args...")
	}
	pattern := regexp.MustCompile("(?m)" + args[0])
	testenv.Eventually(ts.Value(tbKey{}).(testing.TB), patience, args[0], func() bool {
		err := ts.Exec(args[1], args[2:]...)
		return err == nil && pattern.MatchString(ts.ReadFile("stdout"))
	})
}

// saveCmd is "save NAME": it puts what the last command printed into a variable, without the end
// of the line.
func saveCmd(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: save NAME")
	}
	text := ts.ReadFile("stdout")
	ts.Setenv(args[0], regexp.MustCompile(`\s+$`).ReplaceAllString(text, ""))
}
