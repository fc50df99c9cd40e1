package gateway_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/fencegate/fencegate/gateway/wire"
)

// BenchmarkOneCall compares a one-call commit with three calls (lock, commit, release) for the
// same add: alone, and 64 clients on one resource.
func BenchmarkOneCall(b *testing.B) {
	three := func(r *rig, resource string) {
		var l wire.LockReply
		got := r.do("POST", "/v1/resources/"+resource+"/lock", `{"wait":"60s"}`)
		if err := json.Unmarshal([]byte(got.body), &l); err != nil || got.status != http.StatusCreated {
			r.Errorf("got %d %s", got.status, got.body)
			return
		}
		body := `{"tokens":[{"resource":"` + resource + `","token":"` + l.Token + `"}],` + strings.TrimPrefix(add(1, "60s", resource), `{"lock":{"wait":"1m0s"},`)
		if got := r.do("POST", oneCalls, body); got.status != http.StatusOK {
			r.Errorf("got %d %s", got.status, got.body)
		}
		r.do("DELETE", "/v1/resources/"+resource+"/lock", "", wire.HeaderToken, l.Token)
	}
	one := func(r *rig, resource string) {
		if got := r.do("POST", oneCalls, add(1, "60s", resource)); got.status != http.StatusOK {
			r.Errorf("got %d %s", got.status, got.body)
		}
	}
	for _, way := range []struct {
		name string
		call func(*rig, string)
	}{{"one", one}, {"three", three}} {
		b.Run("alone/"+way.name, func(b *testing.B) {
			r := newRig(b, setup{server: many})
			for b.Loop() {
				way.call(r, "coupon:42")
			}
		})
		b.Run("64 on one/"+way.name, func(b *testing.B) {
			var n grantCounter
			r := newRig(b, setup{server: many, issuer: n.of})
			r.http.Transport.(*http.Transport).MaxIdleConnsPerHost = 64
			var left atomic.Int64
			left.Store(int64(b.N))
			b.ResetTimer()
			together(64, func(int) {
				for left.Add(-1) >= 0 {
					way.call(r, "coupon:42")
				}
			})
			b.ReportMetric(float64(n.granted.Load())/float64(b.N), "grants/op")
		})
	}
}

func many(s *httptest.Server) {}
