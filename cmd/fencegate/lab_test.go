//go:build unix

package main

import (
	"bufio"
	"encoding/json"
	"io/fs"
	"net/http"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/fencegate/fencegate/internal/lab"
	"github.com/fencegate/fencegate/internal/pgtx/pgtxtest"
	"github.com/fencegate/fencegate/internal/testenv"
)

// labActions are those for which a lock and a store are asked what decided.
var labActions = map[string][]string{
	"lock":  {"acquire", "renew", "release", "evict"},
	"store": {"raise", "read", "write", "commit", "evict"},
}

// TestLabSources finds every statement and script that the lab shows, and the rule in Go as it is.
func TestLabSources(t *testing.T) {
	t.Parallel()
	for place, kinds := range map[string][]string{"lock": {"redis", "redlock", "postgres"}, "store": {"redis", "postgres", "sqlite"}} {
		for _, kind := range kinds {
			s := sourcesOf(place, kind)
			for _, action := range labActions[place] {
				text, err := fs.ReadFile(s.files, s.by[action].file)
				if err != nil || !strings.Contains(string(text), "Returns") && !strings.Contains(string(text), "Writes") {
					t.Errorf("%s %s, %s: %v, %q", place, kind, action, err, text)
				}
			}
		}
	}
	shown := backendFlags{Lock: "memory", Store: "memory"}.labSource(t.Context(), nil)
	for place, actions := range labActions {
		for _, action := range actions {
			source := shown(place, action)
			if source == nil || strings.Count(source.Text, "\nfunc ") > 0 || strings.Count(source.Text, "\n") < 10 || !strings.HasSuffix(source.Text, "\n}\n") {
				t.Errorf("%s in memory, %s: %+v, want a function", place, action, source)
			}
		}
	}
	if !strings.Contains(read(t, "fencing/mark.go"), currentGo) {
		t.Error("fencing/mark.go has another rule than the lab shows")
	}
}

// TestServeLab plays in a server's lab over every kind of lock: its counter is lost and healed by the
// store, what decided is shown, and other resources are out of reach.
func TestServeLab(t *testing.T) {
	t.Parallel()
	nodes := redlockNodes(t)
	pg := pgtxtest.Database(t)
	for name, args := range map[string][]string{
		"memory+sqlite":     nil,
		"memory+memory":     {"--store", "memory"},
		"redis+redis":       {"--lock", "redis", "--store", "redis", "--redis-url", testenv.SharedRedis(t).URL()},
		"redlock+memory":    {"--lock", "redlock", "--store", "memory", "--redlock-urls", nodes, "--redlock-node-timeout", "2s"},
		"postgres+postgres": {"--lock", "postgres", "--store", "postgres", "--postgres-url", pg},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := startReplica(t, append(args, "--lab", "--drain-delay", "0s")...)
			r.want(200, "GET", r.url+"/lab/", "")
			r.want(200, "GET", r.url+"/lab", "") // by a redirect
			var s lab.State
			fromJSON(t, r.want(201, "POST", r.url+"/lab/api/sessions", `{"mode": "grant"}`, "Content-Type", "application/json").body, &s)
			session := r.url + "/lab/api/sessions/" + s.ID
			do := func(actor string, action lab.Action) lab.Done {
				t.Helper()
				var done lab.Done
				body, err := json.Marshal(lab.Command{Actor: actor, Action: action})
				if err != nil {
					t.Fatal(err)
				}
				fromJSON(t, r.want(200, "POST", session+"/commands", string(body), "Content-Type", "application/json").body, &done)
				if done.Status != "done" || done.Event == nil {
					t.Fatalf("%s %s: got %+v", actor, action, done)
				}
				return done
			}
			first := do("A", lab.Acquire)
			do("A", lab.Read)
			wrote := do("A", lab.Write)
			do("operator", lab.Flush)
			second := do("B", lab.Acquire)
			if first.Event.Number >= second.Event.Number {
				t.Errorf("B got %s after A's %s, though the counter was lost: want a higher one", second.Event.Number, first.Event.Number)
			}
			if late := do("A", lab.Write); late.Event.Outcome != "refused" {
				t.Errorf("A's late write: %+v, want it refused", late.Event)
			}
			if source := wrote.Event.Source; source == nil || source.Text == "" {
				t.Errorf("the write does not say what decided: %+v", wrote.Event)
			}
			if lock, _, _ := strings.Cut(name, "+"); lock == "postgres" {
				if source := first.Event.Source; source == nil || !strings.Contains(source.Text, "CREATE OR REPLACE FUNCTION fencegate.lock_join") {
					t.Errorf("the grant does not show the function in the database: %+v", source)
				}
			}
			if out := r.want(403, "GET", session+"/gateway/v1/resources/coupon:42/records/left", ""); !strings.Contains(out.body, "forbidden") {
				t.Errorf("another resource: %s", out.body)
			}
			r.stop()
		})
	}
}

func fromJSON(t *testing.T, text string, v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
}

// TestServeWithoutLab: nobody gets a lab who has not asked for it.
func TestServeWithoutLab(t *testing.T) {
	t.Parallel()
	r := startReplica(t, "--store", "memory", "--drain-delay", "0s")
	r.want(404, "GET", r.url+"/lab/", "")
	r.want(404, "POST", r.url+"/lab/api/sessions", `{"mode": "grant"}`)
	r.stop()
}

// TestLabCommand: the page is there, for this machine's own names only, and Ctrl-C is no error.
func TestLabCommand(t *testing.T) {
	t.Parallel()
	cmd := command(t, "lab", "--listen", "127.0.0.1:0")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	address := regexp.MustCompile(`http://\S+/lab/`).FindString(line)
	for host, want := range map[string]int{"": 200, "localhost": 200, "evil.example": 403} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("host %q: %s, want %d", host, resp.Status, want)
		}
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("after Ctrl-C: %v, want exit status 0", err)
	}
}
