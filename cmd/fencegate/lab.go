package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"golang.org/x/term"

	"github.com/fencegate/fencegate/internal/lab"
)

type labCmd struct {
	Listen string `default:"127.0.0.1:8088" env:"FENCEGATE_LAB_LISTEN" help:"HOST:PORT of this machine to serve; port 0 picks a free one (default: ${default})."`
	backendFlags
	Open bool `negatable:"" default:"true" env:"FENCEGATE_LAB_OPEN" help:"Open the page in a browser, where standard output is a terminal (default: ${default})."`
}

// Help implements kong.HelpProvider.
func (labCmd) Help() string {
	return "A page on which fencing is learned by playing: two clients, a lock and a store, drawn as they talk to each other. " +
		"Without flags everything is in this process and in a temporary file. On a Redis or Postgres of yours the lab touches only " +
		"resources named lab:SESSION.…, of which it leaves the counters and marks behind. " +
		"A server that runs anyway serves the same page with fencegate serve --lab."
}

// Run implements the command.
func (c *labCmd) Run(ctx context.Context, k *kong.Context, std stdio) (err error) {
	if local, err := loopback(c.Listen); err != nil || !local {
		return usageError{fmt.Errorf("--listen %q: want HOST:PORT of this machine, such as 127.0.0.1:8088: for others there is fencegate serve --lab", c.Listen)}
	}
	given := c.backendFlags
	if c.backendFlags, err = c.settled(); err != nil {
		return err
	}
	if err := given.unused(k); err != nil {
		return err
	}
	back, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, back.close()) }()
	page, err := c.lab(ctx, back)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: ownNames(mountLab(page, http.NotFoundHandler())), ReadHeaderTimeout: 10 * time.Second}
	defer func() { // before lock and store are closed; Ctrl-C is how it is meant to end
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		err = errors.Join(err, page.Close(last), server.Shutdown(last))
	}()
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", c.Listen)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	address := "http://" + l.Addr().String() + "/lab/"
	fmt.Fprintf(std.out, "The lab is at %s, with the lock in %s and the store in %s. Ctrl-C ends it.\n", address, c.Lock, c.Store)
	if f, ok := std.out.(*os.File); ok && c.Open && term.IsTerminal(int(f.Fd())) {
		openBrowser(ctx, address)
	}
	select {
	case err = <-served:
		return fmt.Errorf("serving the lab: %w", err)
	case <-ctx.Done():
		return nil
	}
}

// lab is the page on what has been opened.
func (f backendFlags) lab(ctx context.Context, o *opened) (*lab.Lab, error) {
	forget, err := f.labForget(o)
	if err != nil {
		return nil, err
	}
	return lab.New(lab.Options{
		Lock: o.lock, Store: o.store, LockName: f.Lock, StoreName: f.Store, Version: programVersion(),
		Forget: forget, Source: f.labSource(ctx, o.postgres),
	})
}

// mountLab puts the lab at /lab/, and everything else at next.
func mountLab(page, next http.Handler) http.Handler {
	page = http.StripPrefix("/lab", page)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/lab":
			http.Redirect(w, r, "/lab/", http.StatusPermanentRedirect)
		case strings.HasPrefix(r.URL.Path, "/lab/"):
			page.ServeHTTP(w, r)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// openBrowser shows the page, if it can; the address has been printed.
func openBrowser(ctx context.Context, address string) {
	program, args := "xdg-open", []string{address}
	switch runtime.GOOS {
	case "darwin":
		program = "open"
	case "windows":
		program, args = "rundll32", []string{"url.dll,FileProtocolHandler", address}
	}
	_ = exec.CommandContext(ctx, program, args...).Start()
}
