//go:build unix

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/storage"
)

const someToken = "1.AAAAAAAAAAAAAAAAAAAAAAAAAA"

// wrongUsage are command lines that are refused before anything happens. URL and DIR stand for a
// gateway and a folder; what follows < is standard input.
var wrongUsage = []struct{ line, says string }{
	{"exec", "expected"},
	{"exec coupon:42", "expected"},
	{"exec coupon:42 --url URL -- ", "expected"},
	{"exec coupon:42 --url URL touch DIR/ran", "[flags] RESOURCE -- CMD [ARGS]"},
	{"exec coupon:42 --url URL sh -c true", "[flags] RESOURCE -- CMD [ARGS]"},
	{"exec coupon:42 --url URL touch -- DIR/ran", "[flags] RESOURCE -- CMD [ARGS]"},
	{"exec --url URL -- coupon:42 touch DIR/ran", "[flags] RESOURCE -- CMD [ARGS]"},
	{"exec coupon/42 --url URL -- touch DIR/ran", "invalid resource"},
	{"exec coupon:42 -- touch DIR/ran", "whom to talk to? --url"},
	{"exec coupon:42 --url URL --ttl 5ms -- touch DIR/ran", "invalid TTL"},
	{"exec coupon:42 --url URL --ttl 2h -- touch DIR/ran", "invalid TTL"},
	{"exec coupon:42 --url URL --ttl soon -- touch DIR/ran", "--ttl"},
	{"exec coupon:42 --url URL --wait=-1s -- touch DIR/ran", "--wait"},
	{"exec coupon:42 --url URL --grace=-1s -- touch DIR/ran", "--grace"},
	{"exec coupon:42 --url URL --wait 1s --nonblock -- touch DIR/ran", "which of the two"},
	{"exec coupon:42 --url URL --label ümlaut -- touch DIR/ran", "invalid label"},
	{"exec coupon:42 --url URL --timeout 1ms -- touch DIR/ran", "--timeout"},
	{"exec coupon:42 --url ftp://here -- touch DIR/ran", "--url"},
	{"exec coupon:42 --url http://me:hush@here -- touch DIR/ran", "--url"},
	{"exec coupon:42 --url URL --api-key-file DIR/none -- touch DIR/ran", "--api-key-file"},
	{"exec coupon:42 --url URL --api-key-file DIR/lines -- touch DIR/ran", "one line"},
	{"exec coupon:42 --api-key-file DIR/token -- touch DIR/ran", "needs --url"},
	{"exec coupon:42 --url http://192.0.2.1 --api-key-file DIR/token -- touch DIR/ran", "unless --insecure-key is set"},
	{"exec coupon:42 --url URL --lock redis -- touch DIR/ran", "which of the two"},
	{"exec coupon:42 --url URL --redlock-max-ttl 1m -- touch DIR/ran", "which of the two"},
	{"lock list --url URL --redlock-node-timeout 1s", "which of the two"},
	{"lock list --url URL --redlock-few-nodes", "Run \"fencegate lock list --help\""},
	{"exec coupon:42 --lock memory --store sqlite -- touch DIR/ran", "use --url"},
	{"exec coupon:42 --lock redis -- touch DIR/ran", "--store is needed"},
	{"exec coupon:42 --store redis -- touch DIR/ran", "--lock is needed"},
	{"exec coupon:42 --lock redis --store redis -- touch DIR/ran", "--redis-url is needed"},
	{"exec coupon:42 --lock paper -- touch DIR/ran", "--lock"},
	{"lock acquire", "expected"},
	{"lock acquire ../x --url URL", "invalid resource"},
	{"lock acquire coupon:42 --url URL --wait=-1s", "--wait"},
	{"lock acquire coupon:42 --url URL --ttl 1us", "invalid TTL"},
	{"lock acquire coupon:42 --url URL --output xml", "--output"},
	{"lock renew coupon:42 --url URL", "a token is needed"},
	{"lock renew coupon:42 " + someToken + " --url URL", "unexpected argument"},
	{"lock renew coupon:42 --token " + someToken + " --url URL", "unknown flag --token"},
	{"lock renew coupon:42 --token-file DIR/none --url URL", "--token-file"},
	{"lock renew coupon:42 --token-file DIR/lines --url URL", "one line"},
	{"lock release coupon:42 --token-file - --url URL <hush", "invalid token"},
	{"lock release coupon:42 --token-file - --url URL <", "one line"},
	{"lock status a..b/ --url URL", "invalid resource"},
	{"lock list --url URL --limit 0", "--limit"},
	{"lock list --url URL --limit 1001", "--limit"},
	{"lock list --url URL --prefix a/b", "--prefix"},
	{"records get coupon:42 --url URL", "expected"},
	{"records get coupon:42 a/b --url URL", "invalid key"},
	{"records get coupon:42 stock --fenced --url URL", "a token is needed"},
	{"records put coupon:42 stock 9 --url URL", "or --wait to take the lock"},
	{"records put coupon:42 stock 9 --wait=-1s --url URL", "--wait"},
	{"records put coupon:42 stock 9 --file DIR/token --wait 1s --url URL", "which of the two"},
	{"records put coupon:42 stock --file DIR/none --wait 1s --url URL", "--file"},
	{"records put coupon:42 stock --token-file - --url URL <" + someToken, "cannot be the token and the value"},
	{"records put coupon:42 stock 9 --if-version 1 --if-absent --wait 1s --url URL", "which of the two"},
	{"records put coupon:42 stock 9 --if-version=-1 --wait 1s --url URL", "--if-version"},
	{"records put coupon:42 stock 9 --token-file DIR/token --wait 1s --url URL", "which of the two"},
	{"records put coupon:42 stock 9 --wait 1s --idempotency-key a/b --url URL", "--idempotency-key"},
	{"records put coupon:42 st/ock 9 --wait 1s --url URL", "invalid key"},
	{"records add coupon:42 stock --wait 1s --url URL", "expected"},
	{"records add coupon:42 stock -1 --wait 1s --url URL", "behind --"},
	{"records add coupon:42 stock 1.5 --wait 1s --url URL", "delta"},
	{"records add coupon:42 stock 9007199254740992 --wait 1s --url URL", "invalid delta"},
	{"records delete coupon:42 stock --url URL", "a token is needed"},
	{"records list coupon:42 --limit=-1 --url URL", "--limit"},
	{"evict", "what is to be evicted"},
	{"evict coupon:42 --url URL --reason x", "what is to be evicted"},
	{"evict coupon:42 --url URL --number 1", "why?"},
	{"evict coupon:42 --url URL --number=-1 --reason x", "invalid number"},
	{"evict coupon:42 --url URL --number 999 --reason x", "invalid number"},
	{"evict coupon:42 --all-marks --yes --store redis", "which of the two"},
	{"evict --all-marks --yes --url URL", "the store itself"},
	{"commit --url URL <", "fencegate: the commit: the body is not one complete JSON object"},
	{"commit --url URL <{}", "neither tokens nor lock"},
	{`commit --url URL <{"lock":{},"ops":[],"ops":[]}`, "comes twice"},
	{`commit --url URL <{"lock":{},"ops":[{"kind":"burn","resource":"coupon:42","key":"stock"}]}`, "operation 0"},
	{`commit --url URL <{"lock":{},"ops":[{"kind":"put","resource":"coupon:42","key":"stock","value":9}]}`, "value"},
	{`commit --url URL <{"lock":{},"ops":[{"kind":"delete","resource":"coupon 42","key":"stock"}]}`, "invalid resource"},
	{`commit --url URL <{"lock":{},"tokens":[{"resource":"coupon:42","token":"` + someToken + `"}],"ops":[]}`, "which of the two"},
	{`commit --url URL <{"lock":{},"ops":[]}`, "invalid commit"},
	{"commit --url URL --file DIR/none", "--file"},
	{"fence show --url URL", "expected"},
	{"fence show / --url URL", "invalid resource"},
	{"fence check coupon:42 --url URL", "a token is needed"},
	{"fence raise coupon:42 --url URL", "a token is needed"},
	{"fence raise coupon:42 99 --url URL", "unexpected argument"},
	{"watch", "only a gateway"},
	{"watch --lock redis --store redis", "unknown flag --lock"},
	{"watch --url URL --timeout 1ms", "--timeout"},
	{"migrate show --output json", "unknown flag --output"},
	{"watch --url URL --resource a --prefix b", "which of the two"},
	{"watch --url URL --kind noise", "--kind"},
	{"watch --url URL --prefix /", "invalid resource"},
	{"completion", "expected"},
	{"completion tcsh", "bash"},
}

// TestWrongUsage runs each: status 2, one sentence that says why, nothing on standard output, no
// secret in what is printed, and no change.
func TestWrongUsage(t *testing.T) {
	t.Parallel()
	if len(wrongUsage) < 80 {
		t.Errorf("the table has %d rows", len(wrongUsage))
	}
	r := newRig(t, fencing.Strict)
	token := r.take(t, "coupon:42")
	if _, err := r.store.Put(t.Context(), token, "stock", []byte("10")); err != nil {
		t.Fatal(err)
	}
	if _, err := r.issuer.Release(t.Context(), token); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"token": someToken, "lines": "hush\nhush\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	before := stateOf(t, r)
	for _, row := range wrongUsage {
		line, stdin, _ := strings.Cut(row.line, "<")
		line = strings.NewReplacer("URL", r.url, "DIR", dir).Replace(line)
		var out, errs bytes.Buffer
		if got := run(strings.Fields(line), strings.NewReader(stdin), &out, &errs); got != exitUsage {
			t.Errorf("%s: exit status %d, want 2", row.line, got)
		}
		said := errs.String()
		if out.Len() > 0 || !strings.Contains(said, row.says) || !strings.HasPrefix(said, "fencegate: ") || strings.Count(said, "\n") != 2 {
			t.Errorf("%s: it says %q, and %q; want %q", row.line, out.String(), said, row.says)
		}
		if strings.Contains(said, "hush") || strings.Contains(said, someToken[2:]) {
			t.Errorf("%s: a secret is told: %q", row.line, said)
		}
	}
	if after := stateOf(t, r); !reflect.DeepEqual(after, before) {
		t.Errorf("something was changed: %+v, %+v", before, after)
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) != 2 {
		t.Errorf("files: %v, %v", list, err)
	}
}

// state is all that there is of a resource.
type state struct {
	status  locking.Status
	mark    fencing.Mark
	records []storage.Record
}

func stateOf(t *testing.T, r *rig) (s state) {
	t.Helper()
	var err error
	s.status = r.status(t, "coupon:42")
	if s.mark, err = r.store.Mark(t.Context(), "coupon:42"); err != nil {
		t.Fatal(err)
	}
	if s.records, err = r.store.List(t.Context(), "coupon:42", "", "", 100); err != nil {
		t.Fatal(err)
	}
	return s
}
