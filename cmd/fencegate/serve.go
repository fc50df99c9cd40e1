package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
	prometheusbridge "go.opentelemetry.io/contrib/bridges/prometheus"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/gateway"
	"github.com/fencegate/fencegate/gateway/apikey"
	"github.com/fencegate/fencegate/gateway/wire"
	"github.com/fencegate/fencegate/internal/lab"
	"github.com/fencegate/fencegate/internal/metrics"
	"github.com/fencegate/fencegate/internal/telemetry"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/locking/memlock"
	"github.com/fencegate/fencegate/storage"
	"github.com/fencegate/fencegate/storage/memstore"
)

// sqliteDefault is the file of --store sqlite for the server and who asks about it.
const sqliteDefault = "fencegate.db"

// postgresConnections is how many connections a server opens to Postgres at most, where the URL
// does not say (pool_max_conns). Three replicas fit under Postgres' own default of 100.
const postgresConnections = 24

// takeOver is how long a server waits for the one before it to give the SQLite file back.
const takeOver = 5 * time.Second

type serveCmd struct {
	listenFlags
	backendFlags
	Mode         string        `enum:"strict,classic" default:"strict" env:"FENCEGATE_MODE" help:"Whether a write may raise the mark: ${enum}. Classic is for numbers of an outside lock service."`
	KeyRetention time.Duration `default:"24h" env:"FENCEGATE_KEY_RETENTION" help:"How long answers to idempotency keys are kept (default: ${default})."`
	limitFlags
	Events      int           `default:"10000" env:"FENCEGATE_EVENTS" help:"How many events are remembered for those who come back to /v1/events (default: ${default})."`
	LogFormat   string        `enum:"auto,json,text" default:"auto" env:"FENCEGATE_LOG_FORMAT" help:"How to log, to standard error: ${enum}; auto is text on a terminal, else json."`
	LogLevel    slog.Level    `placeholder:"LEVEL" default:"info" env:"FENCEGATE_LOG_LEVEL" help:"debug, info (a line for each request), warn or error (default: ${default})."`
	DrainDelay  time.Duration `default:"2s" env:"FENCEGATE_DRAIN_DELAY" help:"How long to go on serving after SIGTERM, while /readyz says no: longer than a load balancer takes to notice (default: ${default})."`
	StopTimeout time.Duration `default:"20s" env:"FENCEGATE_STOP_TIMEOUT" help:"How long requests may then take to end (default: ${default})."`
	outputFlag
}

// Help implements kong.HelpProvider.
func (serveCmd) Help() string {
	return "Without flags: a lock in this process, a SQLite file at ./fencegate.db, and http://127.0.0.1:8080 for everybody on this machine. " +
		"Any other address needs --keys (see fencegate keys), or --insecure. " +
		"Many servers may share one Postgres, one Redis, or both; a lock in memory and a SQLite file belong to one server each. " +
		"SIGTERM and SIGINT end it gracefully: those who wait for a lock are sent away, what was begun is finished; a second one ends it at once. " +
		"SIGHUP reads the certificate again; without one it is like SIGTERM, unless it was ignored from the start (nohup). " +
		"Traces and metrics go where the standard OTEL_ variables say. " +
		"The exit status is 0 after a graceful end, 1 if something was cut off, 130 if a signal came before it served. See docs/operations.md."
}

// Run implements the command.
func (c *serveCmd) Run(ctx context.Context, k *kong.Context, std stdio) error {
	if err := c.settle(k); err != nil {
		return err
	}
	log := c.logger(std.err)
	g := gateway.Options{AdminApart: c.AdminListen != "", Origins: c.Origin, Logger: log}
	c.limit(&g)
	var err error
	if g.Feed, err = gateway.NewFeed(c.Events); err != nil {
		return usageError{fmt.Errorf("--events: %w", err)}
	}
	// In memory first: what is wrong with the limits is known before anything is opened.
	if _, err := c.assemble(memlock.New(), memstore.New(nil), g, nil); err != nil {
		return flagged(err)
	}
	if c.Keys != "" {
		trouble := func(err error) { log.Warn("trouble with the file of keys", "error", err.Error()) }
		if g.Keys, err = apikey.Open(c.Keys, &apikey.Options{OnTrouble: trouble}); err != nil {
			return fmt.Errorf("--keys: %w", err)
		}
	}
	cert, err := c.certificate(log)
	if err != nil {
		return err
	}
	counted := metrics.New(&metrics.Options{Lock: c.Lock, Store: c.Store, Version: programVersion()})
	tel, err := telemetry.Start(ctx, programVersion(), log, prometheusbridge.NewMetricProducer(prometheusbridge.WithGatherer(counted.Gatherer())))
	if err != nil {
		return usageError{err}
	}
	s := &server{flags: c, log: log, cert: cert, telemetry: tel, metrics: counted}
	err = s.run(ctx, g, std)
	return errors.Join(err, s.close())
}

// server is a gateway with everything around it.
type server struct {
	flags     *serveCmd
	log       *slog.Logger
	cert      *certificate // nil without TLS
	telemetry *telemetry.Telemetry
	metrics   *metrics.Metrics
	back      *opened
	gateway   *gateway.Gateway
	lab       *lab.Lab // nil without --lab
	farewell  farewell
	listening []*listener // the last one is that for everybody
	underWay  atomic.Int64
}

// run opens, serves until ctx ends, and stops.
func (s *server) run(ctx context.Context, g gateway.Options, std stdio) error {
	ctx, hup, release := s.hangup(ctx)
	defer release()
	failed, err := s.start(ctx, g)
	if err != nil {
		if ctx.Err() != nil {
			return interrupted{err}
		}
		return err
	}
	if err = s.announce(std); err == nil {
		err = s.until(ctx, hup, failed)
	}
	return errors.Join(err, s.stop(context.WithoutCancel(ctx)))
}

// start opens lock and store, and begins to serve. The channel is that of listen.
func (s *server) start(ctx context.Context, g gateway.Options) (<-chan error, error) {
	c := s.flags
	c.wiring = wiring{
		sqliteWait: takeOver, connections: postgresConnections,
		postgres: s.telemetry.Postgres, redis: s.telemetry.Redis, batch: s.metrics.OnBatch,
	}
	var err error
	if s.back, err = c.open(ctx); err != nil {
		return nil, err
	}
	g.Ready = readiness(c.backendFlags, s.back)
	g.Metrics, g.OnRequest = s.metrics.Handler(), s.metrics.OnRequest
	if s.gateway, err = c.assemble(s.back.lock, s.back.store, g, s.onEvent(g.Feed)); err != nil {
		return nil, err
	}
	if c.Lab {
		if s.lab, err = c.lab(ctx, s.back); err != nil {
			return nil, err
		}
	}
	s.metrics.Watch(s.gateway.Load)
	return s.listen(ctx)
}

// hangup is what SIGHUP does: with a certificate it is told to the channel, without one it ends ctx
// like SIGTERM, unless it was ignored from the start, as nohup has it.
func (s *server) hangup(ctx context.Context) (_ context.Context, hup chan os.Signal, stop func()) {
	hup = make(chan os.Signal, 1)
	switch {
	case s.cert != nil:
		signal.Notify(hup, syscall.SIGHUP)
		return ctx, hup, func() { signal.Stop(hup) }
	case signal.Ignored(syscall.SIGHUP):
		return ctx, hup, func() {}
	}
	ctx, stop = signal.NotifyContext(ctx, syscall.SIGHUP)
	context.AfterFunc(ctx, stop) // a second one ends the process
	return ctx, hup, stop
}

// until serves until ctx ends, or a listener does.
func (s *server) until(ctx context.Context, hup <-chan os.Signal, failed <-chan error) error {
	for {
		select {
		case <-hup:
			s.cert.reload()
		case err := <-failed:
			return fmt.Errorf("a listener failed: %w", err)
		case <-ctx.Done():
			return nil
		}
	}
}

// assemble builds the gateway over two backends. on may be nil.
func (c *serveCmd) assemble(lock locking.Backend, back storage.Backend, g gateway.Options, on func(fencing.Event)) (*gateway.Gateway, error) {
	mode := fencing.Strict
	if c.Mode == "classic" {
		mode = fencing.Classic
	}
	store, err := storage.New(back, &storage.Options{Mode: mode, MaxValue: int(c.MaxValue), MaxOps: c.MaxOps, OnEvent: on})
	if err != nil {
		return nil, err
	}
	issuer, err := locking.NewIssuer(lock, []fencing.Fence{store}, &locking.IssuerOptions{MaxWaiters: c.MaxWaiters, OnEvent: on})
	if err != nil {
		return nil, err
	}
	g.Issuer, g.Store, g.OnEvent = issuer, store, on
	return gateway.New(g)
}

// onEvent is what every part reports to. What an operator should hear of without looking is logged.
func (s *server) onEvent(feed *gateway.Feed) func(fencing.Event) {
	return func(e fencing.Event) {
		feed.Add(e)
		s.metrics.OnEvent(e)
		switch e.Kind {
		case fencing.EventRegression:
			s.log.Warn("the lock store's counter was behind a store's mark", "resource", e.Resource, "number", e.Number, "highest", e.Highest)
		case fencing.EventEvicted:
			s.log.Info("a token was evicted", "resource", e.Resource, "number", e.Number, "reason", e.Reason)
		}
	}
}

// close gives back what is open, also after an error.
func (s *server) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	var err error
	if s.lab != nil {
		err = s.lab.Close(ctx)
	}
	if s.back != nil {
		done := make(chan error, 1)
		go func() { done <- s.back.close() }() // a pool waits for whoever still uses it
		select {
		case late := <-done:
			err = errors.Join(err, late)
		case <-ctx.Done():
			err = errors.Join(err, errors.New("lock and store were still in use at the end"))
		}
	}
	flush, cancelFlush := context.WithTimeout(context.Background(), closeTimeout)
	defer cancelFlush()
	if late := s.telemetry.Close(flush); late != nil {
		s.log.Warn("the last traces or metrics were not sent", "error", wire.Redact(late.Error()))
	}
	return err
}

// closeTimeout bounds what is done after the last request.
const closeTimeout = 5 * time.Second

// programVersion is what this program calls itself.
func programVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "(devel)" {
		return "devel"
	}
	return cmp.Or(info.Main.Version, "devel")
}
