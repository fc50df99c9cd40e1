// Command embed is the gateway inside a server of one's own: a small shop with routes of its
// own, and the locks and records behind them for everybody else over HTTP, in one process with
// no other server. Both sides meet at the same lock and the same store.
//
//	go run ./examples/embed
package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/gateway"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/locking/memlock"
	"github.com/fencegate/fencegate/storage"
	"github.com/fencegate/fencegate/storage/sqlitestore"
)

// options are the command line and the environment.
type options struct {
	listen string // HOST:PORT; port 0 picks a free one
	db     string // the SQLite file; empty for one that is removed at the end
	key    string // what clients of the gateway show; empty for one that is made for this run
}

func main() {
	o := options{key: os.Getenv("EMBED_KEY")}
	flag.StringVar(&o.listen, "listen", "127.0.0.1:8080", "HOST:PORT to serve; port 0 picks a free one")
	flag.StringVar(&o.db, "db", "", "the SQLite file (default: one that is removed at the end)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Stdout, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "embed:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends, and then finishes what was begun.
func run(ctx context.Context, out io.Writer, o options) (err error) {
	if o.db == "" {
		dir, err := os.MkdirTemp("", "embed-")
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(dir) }()
		o.db = filepath.Join(dir, "shop.db")
	}
	db, err := sqlitestore.Open(ctx, o.db, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()

	shop, g, err := assemble(db, out, &o)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	shop.routes(mux)                                     // ours
	mux.Handle("/fence/", http.StripPrefix("/fence", g)) // the gateway: FENCEGATE_URL is http://HOST:PORT/fence
	mux.Handle("/problems/", g)                          // what its errors' types lead to

	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.listen)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "the shop is at http://%s\nexport FENCEGATE_URL=http://%[1]s/fence FENCEGATE_API_KEY=%s\n", l.Addr(), o.key)
	return serve(ctx, l, mux, g)
}

// assemble puts the lock, the store, the shop and the gateway together.
func assemble(db storage.Backend, out io.Writer, o *options) (*shop, *gateway.Gateway, error) {
	// One hook sees everything. The feed streams it at /fence/v1/events; here, refusals are logged.
	feed, err := gateway.NewFeed(0)
	if err != nil {
		return nil, nil, err
	}
	log := slog.New(slog.NewTextHandler(out, nil))
	onEvent := func(e fencing.Event) {
		feed.Add(e)
		if e.Kind == fencing.EventRefused {
			log.Warn("refused", "what", e.Attempt, "resource", e.Resource, "number", e.Number, "highest", e.Highest, "reason", e.Reason)
		}
	}
	store, err := storage.New(db, &storage.Options{OnEvent: onEvent})
	if err != nil {
		return nil, nil, err
	}
	// The issuer is the one desk for both sides: it raises each token in the store before
	// anybody reads. After a restart the lock begins at 1 again, and the store heals that.
	issuer, err := locking.NewIssuer(memlock.New(), []fencing.Fence{store}, &locking.IssuerOptions{OnEvent: onEvent})
	if err != nil {
		return nil, nil, err
	}
	locker, err := locking.New(issuer, &locking.Options{TTL: 10 * time.Second, Wait: maxWait, Label: "shop", OnEvent: onEvent})
	if err != nil {
		return nil, nil, err
	}
	o.key = cmp.Or(o.key, "fg_embed."+rand.Text())
	g, err := gateway.New(gateway.Options{
		Issuer: issuer, Store: store, Feed: feed, OnEvent: onEvent, Logger: slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelWarn})),
		Keys:       newRing(o.key),
		AdminApart: true, // evictions and metrics are g.Admin(), which is mounted nowhere here
	})
	return &shop{locker: locker, store: store}, g, err
}

// serve serves until ctx ends, by SIGTERM say.
func serve(ctx context.Context, l net.Listener, h http.Handler, g *gateway.Gateway) error {
	srv := &http.Server{
		Handler: h, MaxHeaderBytes: 16 << 10,
		// Against senders that are slow on purpose. Where a request waits for a lock or streams
		// events, the gateway lengthens them by itself.
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, WriteTimeout: time.Minute, IdleTimeout: 2 * time.Minute,
	}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(l) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	g.Drain() // those who wait for locks are sent away with 503 draining, and hold nothing
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*maxWait)
	defer cancel()
	return srv.Shutdown(ctx) // everything else is finished
}
