//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/fencegate/fencegate/internal/pgtx/pgtxtest"
	"github.com/fencegate/fencegate/internal/testenv"
)

// redlockNodes starts three nodes and returns their URLs, with commas.
func redlockNodes(t *testing.T) string {
	t.Helper()
	var urls []string
	for range 3 {
		urls = append(urls, testenv.StartRedis(t, nil).URL())
	}
	nodes := strings.Join(urls, ",")
	if out, err := command(t, "redlock", "init", "--redlock-urls", nodes).CombinedOutput(); err != nil {
		t.Fatalf("redlock init: %v\n%s", err, out)
	}
	return nodes
}

// TestServePairs starts a server over every lock and every store: it locks, writes, refuses what
// is stale, is ready, and ends cleanly.
func TestServePairs(t *testing.T) {
	t.Parallel()
	nodes := redlockNodes(t)
	locks := map[string]string{"memory": "", "redis": "redis", "redlock": "redlock", "postgres": "postgres"}
	for lock := range locks {
		for _, store := range []string{"sqlite", "memory", "redis", "postgres"} {
			t.Run(lock+"+"+store, func(t *testing.T) {
				t.Parallel()
				args := []string{"--lock", lock, "--store", store, "--drain-delay", "0s"}
				if lock == "redis" || store == "redis" {
					args = append(args, "--redis-url", testenv.SharedRedis(t).URL())
				}
				if lock == "postgres" || store == "postgres" {
					args = append(args, "--postgres-url", pgtxtest.Database(t))
				}
				if lock == "redlock" {
					args = append(args, "--redlock-urls", nodes, "--redlock-node-timeout", "2s")
				}
				r := startReplica(t, args...)
				useIt(t, r)
				ready := r.want(200, "GET", r.url+"/readyz?verbose", "").body
				for _, part := range []string{"lock " + lock, "store " + store} {
					if !strings.Contains(ready, part) {
						t.Errorf("/readyz says nothing of %s:\n%s", part, ready)
					}
				}
				if lock == "postgres" && !strings.Contains(ready, "schema version") {
					t.Errorf("/readyz says nothing of the schema:\n%s", ready)
				}
				r.stop()
			})
		}
	}
}

// useIt locks, writes and reads, and comes too late.
func useIt(t *testing.T, r *replica) {
	t.Helper()
	name := testenv.Unique(t, "coupon")
	record := r.url + "/v1/resources/" + name + "/records/left"
	token := r.lock(name, `{"ttl": "1m"}`)
	r.want(204, "PUT", record, "10", "Fencing-Token", token)
	if got := r.want(200, "GET", record, "", "Fencing-Token", token); got.body != "10" {
		t.Errorf("read %q, want 10", got.body)
	}
	r.want(423, "POST", r.url+"/v1/resources/"+name+"/lock", `{"ttl": "1m"}`)
	r.want(200, "DELETE", r.url+"/v1/resources/"+name+"/lock", "", "Fencing-Token", token)
	r.want(412, "PUT", record, "9", "Fencing-Token", token)
	newer := r.lock(name, `{"ttl": "1m", "wait": "50s"}`)
	r.want(412, "PUT", record, "9", "Fencing-Token", token)
	r.want(204, "PUT", record, "8", "Fencing-Token", newer)
}

// TestServeNothing runs the lines that a server without flags prints, as they are printed.
func TestServeNothing(t *testing.T) {
	t.Parallel()
	r := startReplica(t, "--drain-delay", "0s", "--log-format", "text")
	testenv.Eventually(t, patience, "what to try", func() bool { return strings.Contains(r.log.String(), "it is refused.") })
	var lines []string
	for line := range strings.Lines(r.log.String()) {
		if strings.Contains(line, "curl ") {
			lines = append(lines, line)
		}
	}
	if len(lines) != 3 {
		t.Fatalf("%d lines to try, want 3:\n%s", len(lines), r.log)
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", strings.Join(lines, ""))
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"204 No Content", "Fencing-Mark: 1", `{"released":true}`, "412 Precondition Failed", "/problems/stale-token"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the lines do not show %q:\n%s", want, out)
		}
	}
	if _, err := os.Stat(filepath.Join(r.cmd.Dir, sqliteDefault)); err != nil {
		t.Error(err)
	}
	r.stop()
}

// TestServeKilled kills a server and starts it again on the same file: the marks are there, the
// token of before is refused, the next number is higher.
func TestServeKilled(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "kept.db")
	r := startReplica(t, "--sqlite-path", file)
	record := "/v1/resources/coupon:42/records/left"
	r.lock("coupon:41", `{}`)
	token := r.lock("coupon:42", `{"ttl": "1m"}`)
	r.want(204, "PUT", r.url+record, "10", "Fencing-Token", token)
	r.signal(syscall.SIGKILL)
	<-r.exited

	r = startReplica(t, "--sqlite-path", file, "--drain-delay", "0s")
	if got := r.want(200, "GET", r.url+record, ""); got.body != "10" {
		t.Errorf("the record is %q, want 10", got.body)
	}
	late := r.want(412, "PUT", r.url+record, "9", "Fencing-Token", token)
	if !strings.Contains(late.body, `"reason":"retired"`) {
		t.Errorf("the token of before: %s, want it retired", late.body)
	}
	next := r.lock("coupon:42", `{}`)
	if !strings.HasPrefix(next, "2.") {
		t.Errorf("the next token is %.2s..., want 2", next)
	}
	r.want(204, "PUT", r.url+record, "9", "Fencing-Token", next)
	r.stop()
}
