package fencehttp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/fencing/fencehttp"
)

// base is not the default transport: a test server that is closed in another test closes connections of that one.
var base = &http.Transport{}

const (
	grantA = "MFRGGZDFMZTWQ2LKNNWG23TPOB"
	grantB = "NBSWY3DPEB3W64TMMQQGC3TEEB"
)

var (
	coupon = fencing.Token{Resource: "coupon:42", Number: 34, Grant: grantA}
	order  = fencing.Token{Resource: "order:7", Number: 7, Grant: grantB}
)

// byPath is about the resource that the path names.
func byPath(r *http.Request) string { return strings.TrimPrefix(r.URL.Path, "/") }

func TestHandler(t *testing.T) {
	t.Parallel()
	type headers = map[string][]string
	const token, resource = fencehttp.HeaderToken, fencehttp.HeaderResource
	long := func(n int) headers {
		var texts, names []string
		for i := range n {
			texts, names = append(texts, coupon.Text()), append(names, fmt.Sprint("r", i))
		}
		return headers{token: {strings.Join(texts, ",")}, resource: {strings.Join(names, ",")}}
	}
	for _, tc := range []struct {
		name    string
		o       *fencehttp.Options
		headers headers
		status  int    // 200: the handler was reached
		slug    string // of the problem
		want    []fencing.Token
	}{
		{name: "none", status: 200},
		{name: "none, required", o: &fencehttp.Options{Required: true}, status: 428, slug: "token-required"},
		{name: "one", headers: headers{token: {coupon.Text()}, resource: {"coupon:42"}}, status: 200, want: []fencing.Token{coupon}},
		{name: "one, required", o: &fencehttp.Options{Required: true}, headers: headers{token: {coupon.Text()}, resource: {"coupon:42"}}, status: 200, want: []fencing.Token{coupon}},
		{name: "two", headers: headers{token: {coupon.Text() + ", " + order.Text()}, resource: {"coupon:42,order:7"}}, status: 200, want: []fencing.Token{coupon, order}},
		{name: "as many as may be", headers: long(fencehttp.MaxTokens), status: 200},
		{name: "too many", headers: long(fencehttp.MaxTokens + 1), status: 400, slug: "malformed"},
		{name: "by path", o: &fencehttp.Options{Resource: byPath, Required: true}, headers: headers{token: {coupon.Text()}}, status: 200, want: []fencing.Token{coupon}},
		{name: "by path, and named", o: &fencehttp.Options{Resource: byPath, Required: true}, headers: headers{token: {coupon.Text()}, resource: {"coupon:42"}}, status: 200, want: []fencing.Token{coupon}},
		{name: "by path, another named", o: &fencehttp.Options{Resource: byPath, Required: true}, headers: headers{token: {order.Text()}, resource: {"order:7"}}, status: 428, slug: "token-required"},
		{name: "by path, another named, not required", o: &fencehttp.Options{Resource: byPath}, headers: headers{token: {order.Text()}, resource: {"order:7"}}, status: 200, want: []fencing.Token{order}},
		{name: "by path, both named", o: &fencehttp.Options{Resource: byPath, Required: true}, headers: headers{token: {order.Text() + "," + coupon.Text()}, resource: {"order:7,coupon:42"}}, status: 200, want: []fencing.Token{order, coupon}},
		{name: "by path, a list unnamed", o: &fencehttp.Options{Resource: byPath}, headers: headers{token: {coupon.Text() + "," + order.Text()}}, status: 422, slug: "invalid"},
		{name: "plain number", headers: headers{token: {"34"}, resource: {"coupon:42"}}, status: 200, want: []fencing.Token{{Resource: "coupon:42", Number: 34}}},
		{name: "unnamed", headers: headers{token: {coupon.Text()}}, status: 400, slug: "malformed"},
		{name: "name alone", headers: headers{resource: {"coupon:42"}}, status: 400, slug: "malformed"},
		{name: "two headers", headers: headers{token: {coupon.Text(), coupon.Text()}, resource: {"coupon:42"}}, status: 400, slug: "malformed"},
		{name: "two names", headers: headers{token: {coupon.Text()}, resource: {"coupon:42", "coupon:42"}}, status: 400, slug: "malformed"},
		{name: "two headers of each", headers: headers{token: {coupon.Text(), order.Text()}, resource: {"coupon:42", "order:7"}}, status: 400, slug: "malformed"},
		{name: "more tokens", headers: headers{token: {coupon.Text() + "," + order.Text()}, resource: {"coupon:42"}}, status: 400, slug: "malformed"},
		{name: "more names", headers: headers{token: {coupon.Text()}, resource: {"coupon:42,order:7"}}, status: 400, slug: "malformed"},
		{name: "one resource twice", headers: headers{token: {coupon.Text() + "," + coupon.Text()}, resource: {"coupon:42,coupon:42"}}, status: 400, slug: "malformed"},
		{name: "empty", headers: headers{token: {""}, resource: {"coupon:42"}}, status: 422, slug: "invalid"},
		{name: "empty, by path", o: &fencehttp.Options{Resource: byPath}, headers: headers{token: {""}}, status: 422, slug: "invalid"},
		{name: "both empty", headers: headers{token: {""}, resource: {""}}, status: 422, slug: "invalid"},
		{name: "trailing comma", headers: headers{token: {coupon.Text() + ","}, resource: {"coupon:42,"}}, status: 422, slug: "invalid"},
		{name: "zero", headers: headers{token: {"0." + grantA}, resource: {"coupon:42"}}, status: 422, slug: "invalid"},
		{name: "too large", headers: headers{token: {"9007199254740992." + grantA}, resource: {"coupon:42"}}, status: 422, slug: "invalid"},
		{name: "short grant", headers: headers{token: {"34." + grantA[1:]}, resource: {"coupon:42"}}, status: 422, slug: "invalid"},
		{name: "small letters", headers: headers{token: {strings.ToLower(coupon.Text())}, resource: {"coupon:42"}}, status: 422, slug: "invalid"},
		{name: "bad name", headers: headers{token: {coupon.Text()}, resource: {"coupon 42"}}, status: 422, slug: "invalid"},
		{name: "a secret as a name", headers: headers{token: {coupon.Text()}, resource: {"/" + grantA}}, status: 422, slug: "invalid"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			reached := false
			h := fencehttp.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				reached = true
				for _, want := range tc.want {
					if got, ok := fencing.FromContext(r.Context(), want.Resource); !ok || got != want {
						t.Errorf("got %v, %t, want %v", got, ok, want)
					}
				}
				if got := fencing.ContextTokens(r.Context()); len(tc.want) > 0 && len(got) != len(tc.want) {
					t.Errorf("got %v, want %v", got, tc.want)
				}
			}), tc.o)
			r := httptest.NewRequest(http.MethodPost, "/coupon:42", http.NoBody)
			for name, values := range tc.headers {
				r.Header[name] = values
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != tc.status || reached != (tc.status == 200) {
				t.Fatalf("got status %d, reached = %t, want %d: %s", w.Code, reached, tc.status, w.Body)
			}
			if tc.status != 200 {
				wantProblem(t, w.Result(), tc.status, tc.slug)
			}
		})
	}
}

func wantProblem(t *testing.T, resp *http.Response, status int, slug string) {
	t.Helper()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var p struct {
		Type, Outcome string
		Status        int
	}
	if err := json.Unmarshal(body, &p); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	if resp.StatusCode != status || p.Status != status || p.Type != "/problems/"+slug || p.Outcome != "refused" ||
		resp.Header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("got %d %s, want %d %s", resp.StatusCode, body, status, slug)
	}
	if strings.Contains(string(body), grantA) || strings.Contains(string(body), grantB) {
		t.Errorf("the problem shows a secret: %s", body)
	}
}

// seen is what a server was sent.
type seen struct{ token, resource string }

// listen starts a server that tells what it was sent and redirects to where ?to= says.
func listen(t *testing.T) (*httptest.Server, chan seen) {
	got := make(chan seen, 10)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got <- seen{r.Header.Get(fencehttp.HeaderToken), r.Header.Get(fencehttp.HeaderResource)}
		if to := r.URL.Query().Get("to"); to != "" {
			http.Redirect(w, r, to, http.StatusTemporaryRedirect)
		}
	}))
	t.Cleanup(srv.Close)
	return srv, got
}

func TestTransport(t *testing.T) {
	t.Parallel()
	friend, atFriend := listen(t)
	other, atOther := listen(t)
	all := func(*url.URL) bool { return true }
	both := seen{coupon.Text() + ", " + order.Text(), "coupon:42, order:7"}
	one := seen{coupon.Text(), "coupon:42"}
	to := func(urls ...string) string { // the first redirects to the second, and so on
		u := urls[len(urls)-1]
		for i := len(urls) - 2; i >= 0; i-- {
			u = urls[i] + "?to=" + url.QueryEscape(u)
		}
		return u
	}
	for _, tc := range []struct {
		name    string
		allow   func(*url.URL) bool
		tokens  []fencing.Token
		url     string
		friends []seen // what the friend gets, in order
		others  []seen
	}{
		{"one", all, []fencing.Token{coupon}, friend.URL, []seen{one}, nil},
		{"two", all, []fencing.Token{coupon, order}, friend.URL, []seen{both}, nil},
		{"none", all, nil, friend.URL, []seen{{}}, nil},
		{"nobody is allowed", nil, []fencing.Token{coupon}, friend.URL, []seen{{}}, nil},
		{"not a friend", func(u *url.URL) bool { return "http://"+u.Host == friend.URL }, []fencing.Token{coupon}, other.URL, nil, []seen{{}}},
		{"redirect within", all, []fencing.Token{coupon}, to(friend.URL+"/a", friend.URL+"/b"), []seen{one, one}, nil},
		{"redirect away, though allowed", all, []fencing.Token{coupon}, to(friend.URL, other.URL), []seen{one}, []seen{{}}},
		{"redirect away and back", all, []fencing.Token{coupon}, to(friend.URL, other.URL, friend.URL), []seen{one, {}}, []seen{{}}},
		{"redirect away and on", all, []fencing.Token{coupon}, to(friend.URL, other.URL+"/a", other.URL+"/b"), []seen{one}, []seen{{}, {}}},
	} {
		client := http.Client{Transport: &fencehttp.Transport{Base: base, Allow: tc.allow}}
		req, err := http.NewRequestWithContext(fencing.NewContext(t.Context(), tc.tokens...), http.MethodPost, tc.url, strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatalf("%s: %v", tc.name, err)
		}
		_ = resp.Body.Close()
		if len(req.Header) != 0 {
			t.Errorf("%s: the caller's request has changed", tc.name)
		}
		for _, at := range []struct {
			got  chan seen
			want []seen
		}{{atFriend, tc.friends}, {atOther, tc.others}} {
			for i, want := range at.want {
				if got := <-at.got; got != want {
					t.Errorf("%s: request %d: got %v, want %v", tc.name, i, got, want)
				}
			}
			if len(at.got) > 0 {
				t.Fatalf("%s: unexpected requests", tc.name)
			}
		}
	}
}

func TestTransportRefuses(t *testing.T) {
	t.Parallel()
	srv, got := listen(t)
	tr := &fencehttp.Transport{Base: base, Allow: func(*url.URL) bool { return true }}
	many := make([]fencing.Token, fencehttp.MaxTokens+1)
	for i := range many {
		many[i] = fencing.Token{Resource: fmt.Sprint("r", i), Number: 1, Grant: grantA}
	}
	for name, ctx := range map[string]context.Context{
		"too many":   fencing.NewContext(t.Context(), many...),
		"no number":  fencing.NewContext(t.Context(), fencing.Token{Resource: "coupon:42", Grant: grantA}),
		"line break": fencing.NewContext(t.Context(), fencing.Token{Resource: "coupon:42\r\nX: y", Number: 1, Grant: grantA}),
	} {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, srv.URL, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := tr.RoundTrip(req)
		if !errors.Is(err, fencing.ErrInvalid) || strings.Contains(err.Error(), grantA) {
			t.Errorf("%s: got %v, want an *InvalidError", name, err)
		}
		if err == nil {
			_ = resp.Body.Close()
		}
	}
	if len(got) > 0 {
		t.Error("something was sent")
	}
	// What the caller has set is sent in place of what the context has.
	req, err := http.NewRequestWithContext(fencing.NewContext(t.Context(), coupon), http.MethodGet, srv.URL, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set(fencehttp.HeaderToken, order.Text())
	resp, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if g := <-got; g != (seen{token: order.Text()}) {
		t.Errorf("got %v, want the caller's own header alone", g)
	}
}

// TestTransportTakesTokensOut: headers that a request has already, its caller's or those that a proxy
// passes on, go where tokens may go, and nowhere else.
func TestTransportTakesTokensOut(t *testing.T) {
	t.Parallel()
	friend, atFriend := listen(t)
	other, atOther := listen(t)
	one := seen{coupon.Text(), "coupon:42"}
	onlyFriend := func(u *url.URL) bool { return "http://"+u.Host == friend.URL }
	all := func(*url.URL) bool { return true }
	from := func(srv *httptest.Server) string { return friend.URL + "?to=" + url.QueryEscape(srv.URL) }
	for _, tc := range []struct {
		name    string
		allow   func(*url.URL) bool
		url     string
		friends []seen
		others  []seen
	}{
		{"a friend", onlyFriend, friend.URL, []seen{one}, nil},
		{"not a friend", onlyFriend, other.URL, nil, []seen{{}}},
		{"nobody is allowed", nil, other.URL, nil, []seen{{}}},
		{"redirected away", onlyFriend, from(other), []seen{one}, []seen{{}}},
		{"redirected away, though allowed", all, from(other), []seen{one}, []seen{{}}},
		{"redirected within", onlyFriend, from(friend), []seen{one, one}, nil},
	} {
		for _, ctx := range []context.Context{t.Context(), fencing.NewContext(t.Context(), order)} {
			for _, names := range [][2]string{
				{fencehttp.HeaderToken, fencehttp.HeaderResource}, {strings.ToLower(fencehttp.HeaderToken), "FENCING-RESOURCE"},
			} {
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, tc.url, strings.NewReader("x"))
				if err != nil {
					t.Fatal(err)
				}
				req.Header = http.Header{names[0]: {coupon.Text()}, names[1]: {"coupon:42"}, "X-Other": {"y"}}
				resp, err := (&http.Client{Transport: &fencehttp.Transport{Base: base, Allow: tc.allow}}).Do(req)
				if err != nil {
					t.Fatalf("%s: %v", tc.name, err)
				}
				_ = resp.Body.Close()
				if len(req.Header) != 3 {
					t.Errorf("%s: the caller's request has changed", tc.name)
				}
				wantSeen(t, tc.name+", at the friend's", atFriend, tc.friends)
				wantSeen(t, tc.name+", elsewhere", atOther, tc.others)
			}
		}
	}

	// A proxy between them: what came in does not go out to others.
	target, err := url.Parse(other.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httptest.NewServer(fencehttp.Handler(&httputil.ReverseProxy{
		Rewrite:   func(p *httputil.ProxyRequest) { p.SetURL(target) },
		Transport: &fencehttp.Transport{Base: base, Allow: onlyFriend},
	}, nil))
	t.Cleanup(proxy.Close)
	req, err := http.NewRequestWithContext(fencing.NewContext(t.Context(), coupon), http.MethodGet, proxy.URL, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&fencehttp.Transport{Base: base, Allow: all}).RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	wantSeen(t, "behind a proxy", atOther, []seen{{}})
}

func wantSeen(t *testing.T, name string, at chan seen, want []seen) {
	t.Helper()
	for i, w := range want {
		select {
		case got := <-at:
			if got != w {
				t.Errorf("%s: request %d: got %v, want %v", name, i, got, w)
			}
		default:
			t.Fatalf("%s: got %d requests, want %d", name, i, len(want))
		}
	}
	if len(at) > 0 {
		t.Fatalf("%s: unexpected requests", name)
	}
}

func TestWriteStale(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		err    error
		status int // 0: not written
		slug   string
	}{
		{&fencing.StaleError{Token: coupon, Highest: 35, Reason: fencing.Superseded}, 412, "stale-token"},
		{fmt.Errorf("writing: %w", &fencing.StaleError{Token: coupon, Highest: 34, Reason: fencing.Retired}), 412, "stale-token"},
		{&fencing.StaleError{Token: fencing.Token{Resource: "coupon:42", Number: 34}, Highest: 34, Reason: fencing.GrantRequired}, 428, "token-required"},
		{fencing.AsPartial(&fencing.StaleError{Token: coupon, Highest: 35, Reason: fencing.Superseded}), 0, ""},
		{errors.New("else"), 0, ""},
		{nil, 0, ""},
	} {
		w := httptest.NewRecorder()
		if got := fencehttp.WriteStale(w, tc.err); got != (tc.status != 0) {
			t.Errorf("%v: got %t", tc.err, got)
		}
		if tc.status == 0 {
			if w.Body.Len() > 0 || len(w.Header()) > 0 {
				t.Errorf("%v: something was written", tc.err)
			}
			continue
		}
		if got := w.Header().Get(fencehttp.HeaderMark); got != "35" && got != "34" {
			t.Errorf("%v: got the mark %q", tc.err, got)
		}
		wantProblem(t, w.Result(), tc.status, tc.slug)
	}
}
