package telemetry_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/trace"

	"github.com/fencegate/fencegate/gateway"
	"github.com/fencegate/fencegate/gateway/apikey"
	"github.com/fencegate/fencegate/gateway/wire"
	"github.com/fencegate/fencegate/internal/pgtx/pgtxtest"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/locking/pglock"
	"github.com/fencegate/fencegate/locking/redislock"
	"github.com/fencegate/fencegate/storage"
	"github.com/fencegate/fencegate/storage/pgstore"
	"github.com/fencegate/fencegate/storage/redisstore"
)

type ring struct{}

func (ring) Find(text string) (apikey.Key, bool) {
	return apikey.Key{ID: "k1", Scopes: apikey.All}, text == plantedKey
}

// A whole path through real servers, with secrets planted wherever a client has a place for them.
func TestNoSecretIsTold(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(*testing.T, *recorded) (locking.Backend, storage.Backend){
		"redis": openRedis, "postgres": openPostgres,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := record(t)
			lock, store := open(t, r)
			h := r.Handler(newGateway(t, lock, store, gateway.Options{Keys: ring{}}))
			path := "/v1/resources/" + testenv.Unique(t, "coupon")
			auth := []string{"Authorization", "Bearer " + plantedKey, "Content-Type", "application/json", "User-Agent", "x/" + plantedGrant}
			req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path+"/lock", strings.NewReader(`{"ttl":"1m"}`))
			req.Header.Set(auth[0], auth[1])
			req.Header.Set(auth[2], auth[3])
			w := httptest.NewRecorder()
			h.ServeHTTP(w, req)
			var granted wire.LockReply
			if err := json.Unmarshal(w.Body.Bytes(), &granted); err != nil || w.Code != http.StatusCreated {
				t.Fatal(w.Code, w.Body, err)
			}
			with := func(token string, more ...string) []string {
				return append(append(more, auth...), wire.HeaderToken, token)
			}
			for _, c := range []struct {
				want    int
				method  string
				path    string
				headers []string
			}{
				{204, http.MethodPut, path + "/records/k", with(granted.Token)},
				{204, http.MethodPut, path + "/records/k", with(granted.Token, wire.HeaderKey, "planted-once")},
				{412, http.MethodPut, path + "/records/k", with("1." + plantedGrant)},
				{412, http.MethodPatch, path + "/lock", with("1." + plantedGrant)},
				{200, http.MethodGet, path + "/records/k", with(granted.Token)},
				{400, http.MethodGet, path + "/records/k?x=" + plantedQuery, with(granted.Token)},
				{404, http.MethodGet, path + "/records/" + plantedGrant, auth},
				{200, http.MethodDelete, path + "/lock", with(granted.Token)},
			} {
				body := strings.NewReader(plantedValue)
				if c.method == http.MethodPatch {
					body = strings.NewReader("{}")
				}
				req := httptest.NewRequestWithContext(t.Context(), c.method, c.path, body)
				for i := 0; i < len(c.headers); i += 2 {
					req.Header.Set(c.headers[i], c.headers[i+1])
				}
				w := httptest.NewRecorder()
				h.ServeHTTP(w, req)
				if w.Code != c.want {
					t.Errorf("%s %s: got %d %s, want %d", c.method, c.path, w.Code, w.Body, c.want)
				}
			}
			_, grant, _ := strings.Cut(granted.Token, ".")
			spans := r.ended(t)
			said := dump(t, spans) + r.measured(t)
			for _, secret := range []string{grant, plantedGrant, plantedKey, plantedValue, plantedQuery} {
				if i := strings.Index(said, secret); i >= 0 {
					t.Errorf("%q is told: ...%s...", secret, said[max(0, i-300):i+50])
				}
			}
			clients := 0
			for _, s := range spans {
				if s.SpanKind == trace.SpanKindClient {
					clients++
				}
			}
			if clients == 0 {
				t.Errorf("the server behind is in no span:\n%s", said)
			}
			if len(said) < 1000 {
				t.Errorf("hardly anything is told: %s", said)
			}
		})
	}
}

func openRedis(t *testing.T, r *recorded) (locking.Backend, storage.Backend) {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: testenv.SharedRedis(t).Addr(), MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = client.Close() })
	if err := r.Redis(client); err != nil {
		t.Fatal(err)
	}
	lock, err := redislock.New(client, nil)
	if err != nil {
		t.Fatal(err)
	}
	store, err := redisstore.New(t.Context(), client, nil)
	if err != nil {
		t.Fatal(err)
	}
	return lock, store
}

func openPostgres(t *testing.T, r *recorded) (locking.Backend, storage.Backend) {
	t.Helper()
	pool := pgtxtest.Open(t, pgtxtest.Database(t), func(c *pgxpool.Config) { r.Postgres(c) })
	lock, err := pglock.New(t.Context(), pool, nil)
	if err != nil {
		t.Fatal(err)
	}
	store, err := pgstore.New(t.Context(), pool, nil)
	if err != nil {
		t.Fatal(err)
	}
	return lock, store
}
