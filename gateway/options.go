package gateway

import (
	"cmp"
	"context"
	"log/slog"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/gateway/apikey"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/storage"
)

// Store is what the gateway needs of a store; *storage.Store is one.
type Store interface {
	Commit(ctx context.Context, c storage.Commit) (storage.Result, error)
	Get(ctx context.Context, resource, key string) (storage.Record, error)
	GetFenced(ctx context.Context, t fencing.Token, key string) (storage.Record, error)
	List(ctx context.Context, resource, prefix, after string, limit int) ([]storage.Record, error)
	Mark(ctx context.Context, resource string) (fencing.Mark, error)
	Raise(ctx context.Context, t fencing.Token) error
	Mode() fencing.Mode
	// Validate says whether Commit would refuse a commit for its form, tokens apart.
	Validate(c storage.Commit) error
	// Answered returns the answer that is on record for a commit's key, if there is one. The
	// commit's tokens do not matter.
	Answered(ctx context.Context, c storage.Commit) (storage.Result, bool, error)
}

var _ Store = (*storage.Store)(nil)

// Options says what a [Gateway] serves, and its limits. Issuer and Store are required.
type Options struct {
	// Issuer grants the locks. Its grants must raise their tokens in Store.
	Issuer locking.Issuer
	// Store holds the records.
	Store Store
	// MaxValue is the largest raw body of a record in bytes, 1 B to 64 MiB. The store has
	// a limit of its own. Default: 1 MiB.
	MaxValue int
	// MaxBody is the largest JSON body in bytes, 1 KiB to 256 MiB: of commits, and of renewals of
	// many locks; all others have 64 KiB at most. Values in a commit are base64, four bytes for
	// three. Default: 8 MiB.
	MaxBody int
	// MaxReply is about how many bytes of values one list of records returns, and no more than three
	// sixteenths of MaxBodies; at least one record always, 1 KiB to 256 MiB. Default: 8 MiB.
	MaxReply int
	// MaxWait is the longest wait for a lock that a request may ask for, 1 ms to 1 h.
	// Default: 60 s.
	MaxWait time.Duration
	// Timeout bounds what a request does apart from waiting for a lock, 10 ms to 10 min.
	// Default: 30 s.
	Timeout time.Duration
	// Cleanup bounds the giving back of a grant that could not be delivered, 10 ms to
	// 1 min. Default: 5 s.
	Cleanup time.Duration
	// Keys says who may do what. Nil: whoever reaches the handler may do everything.
	Keys apikey.Ring
	// AdminApart takes the routes of the scope admin, /metrics and the details of /readyz from
	// the main handler, where they are not found then: they are served by [Gateway.Admin] alone.
	// Default: the main handler has all.
	AdminApart bool
	// Rate is how many requests a second a key may make, 0.001 to 1,000,000, in bursts of up to
	// twice a second's; above it requests are answered 429 rate-limited. A key can have a rate of
	// its own. Without Keys it counts per client address, of IPv6 the first 64 bits. Default: no
	// limit. Requests without a valid key are limited in any case, per client address, to 100 a
	// second or to Rate, if that is less; that limit is no other's.
	Rate float64
	// MaxInFlight is how many requests are worked on at once, 1 to 1,000,000; above it requests
	// are answered 503 overloaded. Those that may wait for locks, event streams, admin routes and
	// open ones are not counted. One key, or one client address where there are no keys, has at most
	// three quarters of them, and of MaxStreams and MaxBodies, rounded up: so nobody alone is in the
	// way of all others. Default: 1024.
	MaxInFlight int
	// MaxWaiting is how many requests with a wait for locks, and repeats of them, are served at once,
	// 1 to 1,000,000; above it they are answered 503 overloaded. Per resource the issuer has a limit of its own.
	// Default: 20,000.
	MaxWaiting int
	// MaxWaitingPerKey is how many of them may be of one key, or of one client address where
	// there are no keys, 1 to 1,000,000. Default: MaxWaiting.
	MaxWaitingPerKey int
	// MaxBodies is how many bytes of bodies are in memory at once, as they came, and of values in
	// replies, those of lists four times, 1 MiB to 64 GiB and no less than MaxBody and MaxValue; above
	// it requests are answered 503 overloaded. The largest body is within every caller's share.
	// Default: 256 MiB.
	MaxBodies int64
	// MaxStreams is how many event streams are served at once, 1 to 100,000. Default: 1000.
	MaxStreams int
	// Origins are the web origins whose scripts may call the gateway (CORS), in the form in which
	// browsers send them: https://example.org, in lower case, without the usual port, path or
	// wildcard. Default: none.
	Origins []string
	// Feed is what GET /v1/events streams. Whoever makes issuer and store passes its Add as their
	// OnEvent. Default: the route answers 404.
	Feed *Feed
	// Ready is asked by /readyz: parts that do not answer make the gateway not ready. Each call
	// is bounded by 5 s. Default: nothing is asked.
	Ready func(ctx context.Context) []Check
	// Metrics is served at /metrics, which needs the scope admin. Default: the route answers 404.
	Metrics http.Handler
	// OnRequest is told of every request that was answered. It is called synchronously and
	// concurrently. Default: nobody.
	OnRequest func(Request)
	// OnEvent is told what the gateway alone sees: grants that could not be delivered
	// (fencing.EventLost). Issuer and store have hooks of their own. Default: nobody.
	OnEvent func(fencing.Event)
	// Logger gets the whole text of the errors that clients see only as 5xx, and a line of level
	// info for every request. Default: nothing is logged.
	Logger *slog.Logger
}

func (o *Options) complete() error {
	if o.Issuer == nil {
		return &fencing.InvalidError{What: "Issuer", Allowed: "one, not nil"}
	}
	if o.Store == nil {
		return &fencing.InvalidError{What: "Store", Allowed: "one, not nil"}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	for _, n := range []struct {
		what             string
		v                *int
		def, least, most int
		allowed          string
	}{
		{"MaxValue", &o.MaxValue, 1 << 20, 1, 64 << 20, "1 byte to 64 MiB"},
		{"MaxBody", &o.MaxBody, 8 << 20, 1 << 10, 256 << 20, "1 KiB to 256 MiB"},
		{"MaxReply", &o.MaxReply, 8 << 20, 1 << 10, 256 << 20, "1 KiB to 256 MiB"},
		{"MaxInFlight", &o.MaxInFlight, 1024, 1, 1_000_000, "1 to 1,000,000"},
		{"MaxWaiting", &o.MaxWaiting, 20_000, 1, 1_000_000, "1 to 1,000,000"},
		{"MaxWaitingPerKey", &o.MaxWaitingPerKey, cmp.Or(o.MaxWaiting, 20_000), 1, 1_000_000, "1 to 1,000,000"},
		{"MaxStreams", &o.MaxStreams, 1000, 1, 100_000, "1 to 100,000"},
	} {
		if *n.v == 0 {
			*n.v = n.def
		}
		if *n.v < n.least || *n.v > n.most {
			return &fencing.InvalidError{What: n.what, Allowed: n.allowed}
		}
	}
	for _, d := range []struct {
		what             string
		v                *time.Duration
		def, least, most time.Duration
	}{
		{"MaxWait", &o.MaxWait, time.Minute, time.Millisecond, time.Hour},
		{"Timeout", &o.Timeout, 30 * time.Second, 10 * time.Millisecond, 10 * time.Minute},
		{"Cleanup", &o.Cleanup, 5 * time.Second, 10 * time.Millisecond, time.Minute},
	} {
		if *d.v == 0 {
			*d.v = d.def
		}
		if *d.v < d.least || *d.v > d.most {
			return &fencing.InvalidError{What: d.what, Got: d.v.String(), Allowed: d.least.String() + " to " + d.most.String()}
		}
	}
	return o.completeLimits()
}

func (o *Options) completeLimits() error {
	if o.Rate != 0 && (o.Rate < apikey.MinRate || o.Rate > apikey.MaxRate || math.IsNaN(o.Rate)) {
		return &fencing.InvalidError{What: "Rate", Allowed: "0.001 to 1,000,000 requests a second"}
	}
	least := int64(max(o.MaxBody, o.MaxValue, 1<<20))
	if o.MaxBodies == 0 {
		o.MaxBodies = 256 << 20
	}
	if o.MaxBodies < least || o.MaxBodies > 64<<30 {
		return &fencing.InvalidError{What: "MaxBodies", Allowed: "1 MiB to 64 GiB, and no less than MaxBody and MaxValue"}
	}
	for _, origin := range o.Origins {
		if err := validateOrigin(origin); err != nil {
			return err
		}
	}
	o.Origins = slices.Clone(o.Origins)
	return nil
}
