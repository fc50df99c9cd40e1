package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/gateway"
	"github.com/fencegate/fencegate/gateway/wire"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/locking/memlock"
	"github.com/fencegate/fencegate/storage"
	"github.com/fencegate/fencegate/storage/memstore"
)

// FuzzGateway sends a request, whatever it is, to a gateway over backends in memory: it is
// answered, never by a fault; what is not 2xx is a problem, changes nothing and shows no secret.
func FuzzGateway(f *testing.F) {
	const (
		token = "Fencing-Token: 1." + canary
		js    = "Content-Type: application/json"
		op    = `"ops":[{"kind":"add","resource":"coupon:42","key":"stock","delta":"-1","min":"0"}]`
	)
	for _, s := range [][3]string{
		{"GET /livez", "", ""},
		{"GET /nowhere", "", ""},
		{"GET /v1/locks?prefix=c&limit=10&after=a", "", ""},
		{"POST /v1/resources/other/lock", js, `{"ttl":"1s","wait":"1ms","label":"a"}`},
		{"POST /v1/resources/coupon%3A42/lock", js, `{"wait":"1ms"}`},
		{"PATCH /v1/resources/coupon:42/lock", js + "\n" + token, `{"ttl":"1m"}`},
		{"DELETE /v1/resources/coupon:42/lock", token, ""},
		{"POST /v1/resources/coupon:42/lock/evict", js, `{"number":"1","reason":"a"}`},
		{"POST /v1/locks/renew", js, `{"tokens":[{"resource":"coupon:42","token":"1.` + canary + `"}]}`},
		{"GET /v1/resources/coupon:42/records/stock", token, ""},
		{"GET /v1/resources/coupon:42/records?prefix=s", "", ""},
		{"PUT /v1/resources/coupon:42/records/stock", token + "\nIf-Match: \"1\"\nIdempotency-Key: a", "8"},
		{"DELETE /v1/resources/coupon:42/records/stock", token + "\nIf-None-Match: *", ""},
		{"POST /v1/commits", js, `{"tokens":[{"resource":"coupon:42","token":"1.` + canary + `"}],` + op + `}`},
		{"POST /v1/commits", js + "\nIdempotency-Key: \"a\"", `{"lock":{"wait":"1ms"},` + op + `}`},
		{"GET /v1/resources/coupon:42/fence", token, ""},
		{"POST /v1/resources/coupon:42/fence", js, `{"raise":"2"}`},
		{"GET /readyz?verbose", "Accept: application/json", ""},
		{"GET /problems/held", "X-Request-Id: a", ""},
		{"HEAD /v1/events?kind=granted", "Last-Event-ID: 1", ""},
	} {
		f.Add(s[0], s[1], []byte(s[2]))
	}
	f.Fuzz(func(t *testing.T, line, headers string, body []byte) {
		head := line + " HTTP/1.1\r\nHost: a\r\n" + strings.ReplaceAll(headers, "\n", "\r\n") + "\r\n"
		head += fmt.Sprintf("Content-Length: %d\r\n\r\n", len(body))
		r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(append([]byte(head), body...))))
		if err != nil {
			return // net/http's to refuse
		}
		r.RemoteAddr = "127.0.0.1:1"
		r = r.WithContext(t.Context())

		store, issuer, g := fuzzed(t)
		before := imageOf(t, store, issuer)
		w := httptest.NewRecorder()
		checked(t, g).ServeHTTP(w, r)
		if w.Code >= 500 && w.Code != http.StatusServiceUnavailable || w.Code < 200 {
			t.Fatalf("got %d %s", w.Code, w.Body)
		}
		if w.Code < 300 {
			return
		}
		var p wire.Problem
		if err := json.Unmarshal(w.Body.Bytes(), &p); r.Method != http.MethodHead && (err != nil || p.Status != w.Code || p.Title == "" || p.Outcome == "") {
			t.Fatalf("got %d %s, want a problem", w.Code, w.Body)
		}
		if reply := w.Body.String() + fmt.Sprint(w.Header()); strings.Contains(reply, canary) || len(reply) > 4096 {
			t.Fatalf("the reply shows the secret, or is long: %.4096s", reply)
		}
		// Who waited for a one-call commit may leave the line a moment after the answer.
		after := imageOf(t, store, issuer)
		for end := time.Now().Add(10 * time.Second); !reflect.DeepEqual(before, after) && time.Now().Before(end); after = imageOf(t, store, issuer) {
			time.Sleep(time.Millisecond)
		}
		if !reflect.DeepEqual(before, after) {
			t.Fatalf("got %d %s, and %v became %v", w.Code, w.Body, before, after)
		}
	})
}

// fuzzed is a gateway without a server; coupon:42 is held, and has a record.
func fuzzed(t *testing.T) (*storage.Store, *locking.LocalIssuer, *gateway.Gateway) {
	t.Helper()
	store, err := storage.New(memstore.New(nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	issuer, err := locking.NewIssuer(memlock.New(), []fencing.Fence{store}, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	granted, err := issuer.Grant(ctx, locking.Request{Resource: "coupon:42", Grant: canary, TTL: time.Hour})
	if err == nil {
		_, err = store.Put(ctx, granted.Token, "stock", []byte("9"))
	}
	if err != nil {
		t.Fatal(err)
	}
	g, err := gateway.New(gateway.Options{Issuer: issuer, Store: store, MaxWait: 5 * time.Millisecond, MaxBody: 1 << 16, MaxValue: 1 << 16})
	if err != nil {
		t.Fatal(err)
	}
	return store, issuer, g
}

func imageOf(t *testing.T, store *storage.Store, issuer *locking.LocalIssuer) []any {
	t.Helper()
	ctx := context.Background()
	locks, err := issuer.List(ctx, "", "", 1000)
	if err != nil {
		t.Fatal(err)
	}
	var out []any
	for _, st := range locks {
		st.Remaining = st.Remaining.Round(20 * time.Minute)
		m, err := store.Mark(ctx, st.Resource)
		if err != nil {
			t.Fatal(err)
		}
		list, err := store.List(ctx, st.Resource, "", "", 1000)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, st, m.Number, m.Grant, m.Retired, list)
	}
	return out
}
