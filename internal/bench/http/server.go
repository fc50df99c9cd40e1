package http

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	nethttp "net/http"
	"net/http/pprof"
	"os"
	"runtime"
	"time"

	"github.com/labstack/echo/v4"
	"golang.org/x/net/netutil"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/gateway"
	"github.com/fencegate/fencegate/gateway/apikey"
	"github.com/fencegate/fencegate/internal/bench/rig"
	"github.com/fencegate/fencegate/internal/metrics"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/storage"
)

// ServerArgument is the first argument of a process that is to be a server of this group; the
// second is what the server is to be.
const ServerArgument = "bench-http-server"

// setup is what a server is to be, and what its process is told on its command line.
type setup struct {
	Echo     bool   // echo, and nothing else
	Lock     string // memory, redis or postgres
	Store    string // memory, redis, postgres or sqlite
	Redis    string // an address
	Postgres string // the URL of a migrated database
	Keys     string // the file with the hashes of the keys
	Dir      string // where files may be
	Known    int    // resources that were locked once
	Held     int    // of which so many still are
}

// ready is what a server says once it serves.
type ready struct{ Addr, Control string }

// Serve is a server's process. It ends when its standard input does.
func Serve(args []string) int {
	err := rig.Run(func(h *rig.Host) error {
		var s setup
		if len(args) != 1 {
			return errors.New("want one argument: what to be")
		}
		if err := json.Unmarshal([]byte(args[0]), &s); err != nil {
			return err
		}
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			cancel()
		}()
		return s.serve(ctx, h)
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench server:", err)
		return 1
	}
	return 0
}

func (s setup) serve(ctx context.Context, h *rig.Host) error {
	handler, err := s.handler(ctx, h)
	if err != nil {
		return err
	}
	addr, err := listen(ctx, h, handler)
	if err != nil {
		return err
	}
	control, err := listen(ctx, h, control())
	if err != nil {
		return err
	}
	if err := json.NewEncoder(os.Stdout).Encode(ready{addr, control}); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// listen serves on a port of its own, with the limits of fencegate serve.
func listen(ctx context.Context, h *rig.Host, handler nethttp.Handler) (addr string, err error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	server := &nethttp.Server{
		Handler: handler, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second,
		WriteTimeout: 75 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10,
	}
	go func() { _ = server.Serve(netutil.LimitListener(l, 25_000)) }()
	h.Cleanup(func() { _ = server.Close() })
	return l.Addr().String(), nil
}

// counts is what a server's process says of itself.
type counts struct {
	Goroutines  int
	Allocations uint64 // so far
}

// control tells of the process itself: counts, and profiles.
func control() nethttp.Handler {
	mux := nethttp.NewServeMux()
	mux.HandleFunc("/counts", func(w nethttp.ResponseWriter, _ *nethttp.Request) {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		_ = json.NewEncoder(w).Encode(counts{runtime.NumGoroutine(), m.Mallocs})
	})
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	return mux
}

// bare is echo's own example, and the least that echo does for a write and for a request that waits.
func bare() nethttp.Handler {
	e := echo.New()
	e.GET("/", func(c echo.Context) error { return c.String(nethttp.StatusOK, "hello") })
	e.PUT("/v1/resources/:resource/records/:key", func(c echo.Context) error {
		if _, err := io.ReadAll(c.Request().Body); err != nil {
			return err
		}
		return c.NoContent(nethttp.StatusNoContent)
	})
	e.GET("/wait", func(c echo.Context) error {
		<-c.Request().Context().Done()
		return nil
	})
	return e
}

// handler puts together what fencegate serve does, with keys, metrics, events and a log line of
// each request, which is written to nowhere.
func (s setup) handler(ctx context.Context, h *rig.Host) (nethttp.Handler, error) {
	if s.Echo {
		return bare(), nil
	}
	m := metrics.New(&metrics.Options{Lock: s.Lock, Store: s.Store})
	b, err := s.open(ctx, h, m.OnBatch)
	if err != nil {
		return nil, err
	}
	feed, err := gateway.NewFeed(10_000)
	if err != nil {
		return nil, err
	}
	on := func(e fencing.Event) {
		feed.Add(e)
		m.OnEvent(e)
	}
	store, err := storage.New(b.store, &storage.Options{OnEvent: on})
	if err != nil {
		return nil, err
	}
	desk, err := locking.NewIssuer(b.lock, []fencing.Fence{store}, &locking.IssuerOptions{OnEvent: on})
	if err != nil {
		return nil, err
	}
	if err := s.fill(ctx, desk); err != nil {
		return nil, err
	}
	keys, err := apikey.Open(s.Keys, nil)
	if err != nil {
		return nil, err
	}
	g, err := gateway.New(gateway.Options{
		Issuer: desk, Store: store, Keys: keys, Feed: feed, OnEvent: on,
		Metrics: m.Handler(), OnRequest: m.OnRequest,
		Logger: slog.New(slog.NewJSONHandler(io.Discard, nil)), //nolint:sloglint // the lines are made, and go nowhere
	})
	if err == nil {
		m.Watch(g.Load)
	}
	return g, err
}
