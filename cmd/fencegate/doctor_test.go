//go:build unix

package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/gateway/apikey"
	"github.com/fencegate/fencegate/internal/testenv"
)

// TestDoctorAsksGateways asks a server about its lock and its store, with a key that may know, and
// tells who does not answer, and who must not know.
func TestDoctorAsksGateways(t *testing.T) {
	t.Parallel()
	keys := filepath.Join(t.TempDir(), "keys.json")
	admin := strings.TrimPrefix(addKey(t, keys, apikey.Admin), "Bearer ")
	reader := strings.TrimPrefix(addKey(t, keys, apikey.Read), "Bearer ")
	redis := testenv.StartRedis(t, nil)
	r := startReplica(t, "--keys", keys, "--lock", "redis", "--redis-url", redis.URL(), "--store", "memory", "--drain-delay", "0s")
	apart := startReplica(t, "--keys", keys, "--store", "memory", "--admin-listen", "127.0.0.1:0", "--drain-delay", "0s")
	gone := "http://" + freePort(t)
	for _, c := range []struct {
		name, key string
		status    int
		args      []string
		want      []string
	}{
		{"admin", admin, exitOK, []string{"--url", r.url}, []string{
			r.url + " lock redis: 0 problems, 1 warning (checked: it serves, durability)", "warning: Redis keeps no append-only file",
			r.url + " store memory: 0 problems, 1 warning",
		}},
		{"reader", reader, exitFailed, []string{"--url", r.url}, []string{"gateway " + r.url + ": 1 problem", "admin"}},
		{"not there", admin, exitFailed, []string{"--url", apart.url}, []string{"gateway " + apart.url + ": 1 problem", "want the admin listener"}},
		{"there", admin, exitOK, []string{"--url", apart.adminURL}, []string{apart.adminURL + " lock memory: fine"}},
		{"one of two", admin, exitUnavailable, []string{"--url", r.url + "," + gone}, []string{r.url + " lock redis: 0 problems", "gateway " + gone + ": 1 problem", "connection refused"}},
		{"json", admin, exitOK, []string{"--url", r.url, "-o", "json"}, []string{`{"ok":true,"parts":[{"gateway":"` + r.url + `","part":"lock","kind":"redis","problems":[],"warnings":["Redis keeps`}},
		{"both", admin, exitUsage, []string{"--url", r.url, "--store", "memory"}, []string{"which of the two"}},
		{"elsewhere", admin, exitUsage, []string{"--url", "http://example.org"}, []string{"--url: ", "https"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			cmd := command(t, append([]string{"doctor"}, c.args...)...)
			cmd.Env = append(clean(), "FENCEGATE_API_KEY="+c.key)
			out, _ := cmd.CombinedOutput()
			if got := cmd.ProcessState.ExitCode(); got != c.status {
				t.Errorf("status %d, want %d: %s", got, c.status, out)
			}
			for _, want := range c.want {
				if !strings.Contains(string(out), want) {
					t.Errorf("it does not say %q:\n%s", want, out)
				}
			}
			if strings.Contains(string(out), c.key) {
				t.Error("it shows the key")
			}
		})
	}
}
