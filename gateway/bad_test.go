package gateway_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/gateway"
	"github.com/fencegate/fencegate/gateway/apikey"
	"github.com/fencegate/fencegate/gateway/wire"
	"github.com/fencegate/fencegate/locking"
)

// bad is what no client should send, and the answer that it must get. Whatever it is, it changes
// nothing and learns no secret.
type bad struct {
	name   string
	status int
	slug   string // of the problem; empty: net/http refuses it before the gateway sees it
	method string // or the whole request as it goes over the wire, in raw
	path   string
	body   string
	header []string // names and values in turn
	raw    string
}

// badInputs is the table of all of them, in parts by theme: badAddresses, badMessages, ...
func badInputs(s scene) []bad {
	return slices.Concat(badAddresses(s), badMessages(s), badTokens(s), badWrites(s), badKeys(s), badTransport(s))
}

// The scene's resources. coupon:42 is held and has records; ended was held, and is not any more.
const (
	lockPath  = "/v1/resources/coupon:42/lock"
	freePath  = "/v1/resources/other/lock"
	records   = "/v1/resources/coupon:42/records"
	stock     = records + "/stock"
	fencePath = "/v1/resources/coupon:42/fence"
	renewPath = "/v1/locks/renew"
	commits   = "/v1/commits"
	tokenName = wire.HeaderToken
)

// What must be in no reply and no log.
const (
	canaryGrant = canary                       // the holder's
	canaryOther = "KANARIKANARIKANARIKANARIKA" // one that was held before
	canarySent  = "SENTSENTSENTSENTSENTSENTSE" // only ever sent
	canaryValue = "canary-value-of-a-record"   // of a record that the caller may not read
	canaryKey   = "canarykeysecret"            // of the API keys
)

// scene is a gateway with everything that the rows want to break.
type scene struct {
	*rig

	token string // of coupon:42, the mark
	ended string // of the resource ended
}

// key returns the text of one of the scene's API keys.
func key(id string) string { return "fg_" + id + "_" + canaryKey }

// The API keys by their ids.
const (
	keyAll     = "aaaaaaaaaa"
	keyRead    = "bbbbbbbbbb"
	keyWrite   = "cccccccccc"
	keyLock    = "dddddddddd"
	keyShop    = "eeeeeeeeee" // for shop: only
	keyExpired = "ffffffffff"
	keySlow    = "gggggggggg" // has used up its rate
)

func keyFile(tb testing.TB) apikey.Ring {
	tb.Helper()
	sum := sha256.Sum256([]byte(canaryKey))
	hash := hex.EncodeToString(sum[:])
	all := []string{"lock", "write", "read", "admin"}
	type row map[string]any
	rows := []row{
		{"id": keyAll, "scopes": all},
		{"id": keyRead, "scopes": []string{"read"}},
		{"id": keyWrite, "scopes": []string{"write"}},
		{"id": keyLock, "scopes": []string{"lock"}},
		{"id": keyShop, "scopes": all, "prefixes": []string{"shop:"}},
		{"id": keyExpired, "scopes": all, "expires": "2020-01-01T00:00:00Z"},
		{"id": keySlow, "scopes": all, "rate": 0.001},
	}
	for _, r := range rows {
		r["sha256"], r["created"] = hash, "2019-01-01T00:00:00Z"
	}
	data, err := json.Marshal(map[string]any{"keys": rows})
	if err != nil {
		tb.Fatal(err)
	}
	file := filepath.Join(tb.TempDir(), "keys.json")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		tb.Fatal(err)
	}
	ring, err := apikey.Open(file, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return ring
}

// keyed sends the key of everything, unless a request has one; with "none" it takes it away.
type keyed struct{ http.RoundTripper }

func (k keyed) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	switch r.Header.Get("Authorization") {
	case "":
		r.Header.Set("Authorization", "Bearer "+key(keyAll))
	case "none":
		r.Header.Del("Authorization")
	}
	return k.RoundTripper.RoundTrip(r)
}

// newScene makes the scene. Resources whose names tell of trouble have it.
func newScene(t *testing.T) scene {
	t.Helper()
	feed, err := gateway.NewFeed(100)
	if err != nil {
		t.Fatal(err)
	}
	trouble := map[string]error{
		"exhausted": locking.ErrExhausted, "unsettled": locking.ErrUnsettled, "refusing": locking.ErrReleased,
	}
	r := newRig(t, setup{
		options: gateway.Options{MaxValue: 1000, MaxBody: 4096, Keys: keyFile(t), Feed: feed},
		issuer: func(i locking.Issuer) locking.Issuer {
			return &hookedIssuer{Issuer: i, grant: func(ctx context.Context, r locking.Request) (locking.Granted, error) {
				if err := trouble[r.Resource]; err != nil {
					return locking.Granted{}, err
				}
				return i.Grant(ctx, r)
			}}
		},
		server: func(s *httptest.Server) {
			s.Config.ReadHeaderTimeout, s.Config.ReadTimeout = 10*time.Second, 2*time.Second
			s.Config.MaxHeaderBytes = 64 << 10
		},
	})
	r.http.Transport = keyed{r.http.Transport}
	s := scene{rig: r}
	s.token = r.lock("coupon:42", `{"ttl":"1h","grant":"`+canaryGrant+`"}`)
	r.want(204, nil, "PUT", stock, "9", tokenName, s.token)
	r.want(204, nil, "PUT", records+"/text", canaryValue, tokenName, s.token)
	r.want(204, nil, "PUT", records+"/max", "9007199254740991", tokenName, s.token)
	r.want(200, nil, "POST", commits, `{"tokens":[{"resource":"coupon:42","token":"`+s.token+
		`"}],"ops":[{"kind":"put","resource":"coupon:42","key":"done","value":"MQ=="}]}`, wire.HeaderKey, "order-7")
	s.ended = r.lock("ended", `{"grant":"`+canaryOther+`"}`)
	r.want(200, nil, "DELETE", "/v1/resources/ended/lock", "", tokenName, s.ended)
	r.want(200, nil, "GET", lockPath, "", "Authorization", "Bearer "+key(keySlow))
	return s
}

// state is everything that a request could change: of every resource that the gateway knows, and of
// those that the rows name.
func (s scene) state() map[string]any {
	s.Helper()
	ctx := context.Background()
	known, err := s.issuer.List(ctx, "", "", 1000)
	if err != nil {
		s.Fatal(err)
	}
	out := map[string]any{}
	for _, name := range []string{"coupon:42", "other", "ended", "exhausted", "unsettled", "refusing", "shop:1"} {
		known = append(known, s.status(name))
	}
	for _, st := range known {
		st.Remaining = st.Remaining.Round(20 * time.Minute) // nothing, or an hour
		list, err := s.store.List(ctx, st.Resource, "", "", 1000)
		if err != nil {
			s.Fatal(err)
		}
		m := s.mark(st.Resource)
		out[st.Resource] = []any{st, m.Number, m.Grant, m.Retired, list}
	}
	return out
}

// TestBadInput sends every row, and looks at the status, the problem, that nothing has changed and
// that nothing was given away; and at the end whether the gateway still works.
func TestBadInput(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	rows := badInputs(s)
	if len(rows) < 100 {
		t.Errorf("the table has %d rows", len(rows))
	}
	names, slugs := map[string]bool{}, map[string]bool{}
	before := s.state()
	for _, row := range rows {
		if names[row.name] {
			t.Errorf("two rows are called %q", row.name)
		}
		names[row.name], slugs[row.slug] = true, true
		s.refuses(row)
		if after := s.state(); !reflect.DeepEqual(before, after) {
			t.Fatalf("%s: something was changed:\n%v\nbefore\n%v", row.name, after, before)
		}
	}
	for _, p := range wire.Pages() {
		if p.Status < 500 && !slugs[p.Slug] {
			t.Errorf("no row gets %d %s", p.Status, p.Slug)
		}
	}
	for _, secret := range []string{canaryGrant, canaryOther, canarySent, canaryValue, canaryKey} {
		if strings.Contains(s.log.String(), secret) {
			t.Errorf("the log shows %s", secret)
		}
	}
	if n := len(s.events); n != 0 {
		t.Errorf("got %d events, want none", n)
	}
	s.want(204, nil, "PUT", stock, "8", tokenName, s.token)
	tok := s.lock("other", `{}`)
	s.want(200, nil, "DELETE", freePath, "", tokenName, tok)
}

// refuses sends a row.
func (s scene) refuses(row bad) {
	s.Helper()
	var got reply
	if row.raw != "" {
		got = s.sendRaw(row)
	} else {
		got = s.do(row.method, row.path, row.body, row.header...)
	}
	if got.status != row.status {
		s.Errorf("%s: got %d %.300s, want %d %s", row.name, got.status, got.body, row.status, row.slug)
		return
	}
	all := got.body + fmt.Sprint(got.header)
	for _, secret := range []string{canaryGrant, canaryOther, canarySent, canaryValue, canaryKey, strings.Repeat("x", 100)} {
		if strings.Contains(all, secret) {
			s.Errorf("%s: the reply shows %s: %.500s", row.name, secret, all)
		}
	}
	if len(all) > 2000 {
		s.Errorf("%s: the reply has %d bytes", row.name, len(all))
	}
	if row.slug == "" {
		return
	}
	var p wire.Problem
	err := json.Unmarshal([]byte(got.body), &p)
	outcome := fencing.Refused.String()
	if row.slug == wire.SlugRateLimited {
		outcome = fencing.Failed.String()
	}
	if err != nil || p.Slug() != row.slug || p.Status != row.status || p.Title == "" || p.Outcome != outcome ||
		got.header.Get("Content-Type") != wire.TypeProblem || got.header.Get("Cache-Control") != "no-store" {
		s.Errorf("%s: got %d %s, %v, want the problem %s, %s", row.name, got.status, got.body, err, row.slug, outcome)
	}
	for status, name := range map[int]string{405: "Allow", 401: "WWW-Authenticate", 423: "Retry-After", 429: "Retry-After"} {
		if row.status == status && got.header.Get(name) == "" {
			s.Errorf("%s: the reply has no header %s", row.name, name)
		}
	}
}

// sendRaw writes a row's bytes as they are, and reads a reply. Of a request that is not complete
// nothing more comes.
func (s scene) sendRaw(row bad) reply {
	s.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		s.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	_, _ = io.WriteString(conn, row.raw) // the server may answer, and close, before it has read all
	method, _, _ := strings.Cut(row.raw, " ")
	resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil {
		s.Errorf("%s: %v", row.name, err)
		return reply{}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		s.Errorf("%s: %v", row.name, err)
	}
	return reply{resp.StatusCode, resp.Header, string(body)}
}
