package rig

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fencegate/fencegate/internal/testenv"
)

// gatewayPrefix begins the names of gateways, and what their connections call themselves.
const gatewayPrefix = "gateway-"

// gatewayTimeout is how long a gateway may take to be ready, or to end, where the context says nothing.
const gatewayTimeout = 30 * time.Second

// Gateway is a process of the real server, "fencegate serve". Its address stays. Its methods are safe for concurrent use.
type Gateway struct {
	name string // gateway-0
	path string // of the binary
	addr string
	args []string
	dir  string // its working directory; its log is beside it
	fork *forker

	mu  sync.Mutex // guards the fields below, and is held while it starts or ends
	now *child     // nil when it was ended
}

// URL is where it serves.
func (g *Gateway) URL() string { return "http://" + g.addr }

// Pid returns its process id, 0 if it does not run.
func (g *Gateway) Pid() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.now == nil {
		return 0
	}
	return g.now.pid()
}

// Kill kills it with SIGKILL, and returns when it is gone. To kill one that does not run does nothing.
func (g *Gateway) Kill() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.now == nil {
		return nil
	}
	c := g.now
	g.now = nil
	return g.wrap("kill", c.kill())
}

// Pause stops it with SIGSTOP, and returns when none of its threads runs.
func (g *Gateway) Pause() error { return g.signal("pause", (*child).pause) }

// Resume lets it go on.
func (g *Gateway) Resume() error { return g.signal("resume", (*child).resume) }

func (g *Gateway) signal(verb string, f func(*child) error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.now == nil || g.now.ended() {
		return g.wrap(verb, os.ErrProcessDone)
	}
	return g.wrap(verb, f(g.now))
}

// Stop ends it gracefully, with SIGTERM, and returns when it is gone. When ctx ends before (or 30 s are over),
// it is killed, and the error says so.
func (g *Gateway) Stop(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.now == nil {
		return nil
	}
	ctx, cancel := bounded(ctx, gatewayTimeout)
	defer cancel()
	c := g.now
	g.now = nil
	if err := c.terminate(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return g.wrap("stop", errors.Join(err, c.kill()))
	}
	select {
	case <-c.done:
		return nil
	case <-ctx.Done():
		return g.wrap("stop", errors.Join(context.Cause(ctx), c.kill()))
	}
}

// Start starts it again on its address, and returns when it is ready. One that runs is left alone.
func (g *Gateway) Start(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.now != nil && !g.now.ended() {
		return nil
	}
	ctx, cancel := bounded(ctx, gatewayTimeout)
	defer cancel()
	c, err := g.launch()
	if err != nil {
		return g.wrap("start", err)
	}
	if err := g.awaitReady(ctx, c); err != nil {
		return g.wrap("start", errors.Join(err, c.kill()))
	}
	g.now = c
	return nil
}

func (g *Gateway) launch() (*child, error) {
	log, err := os.OpenFile(g.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(g.path, append([]string{"serve", "--listen", g.addr}, g.args...)...) //nolint:noctx // Stop and Kill end it
	cmd.Dir, cmd.Stdout, cmd.Stderr = g.dir, log, log
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "FENCEGATE_") && !strings.HasPrefix(e, "OTEL_") {
			cmd.Env = append(cmd.Env, e)
		}
	}
	c, err := g.fork.start(cmd)
	if err != nil {
		return nil, err
	}
	go func() {
		_ = cmd.Wait() // how it ended is in its state
		close(c.done)
	}()
	return c, nil
}

// awaitReady asks until /readyz says yes.
func (g *Gateway) awaitReady(ctx context.Context, c *child) error {
	transport := &http.Transport{DisableKeepAlives: true}
	asker := http.Client{Transport: transport, Timeout: 5 * time.Second}
	var last error
	for {
		if last = ask(ctx, &asker, g.URL()+"/readyz"); last == nil {
			return nil
		}
		select {
		case <-c.done:
			return fmt.Errorf("it has ended: %s", c.status())
		case <-ctx.Done():
			return fmt.Errorf("it is not ready: %w", errors.Join(context.Cause(ctx), last))
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func ask(ctx context.Context, c *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := c.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusOK {
		return nil
	}
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 2000))
	return fmt.Errorf("%s: %s", resp.Status, body)
}

func (g *Gateway) logFile() string { return filepath.Join(g.dir, g.name+".log") }

// wrap adds the end of the log to an error.
func (g *Gateway) wrap(verb string, err error) error {
	if err == nil {
		return nil
	}
	text, _ := os.ReadFile(g.logFile())
	if n := len(text) - tailSize; n > 0 {
		text = text[n:]
	}
	return fmt.Errorf("cannot %s %s: %w\n%s", verb, g.name, err, text)
}

// startGateways starts Spec.Gateways of them, at once.
func (r *Rig) startGateways(ctx context.Context) error {
	dir := ""
	if r.Spec.Gateways > 0 {
		if err := r.Try(func() { dir = testenv.TempDir(r.tb) }); err != nil {
			return err
		}
	}
	data, err := r.gatewayData(dir)
	if err != nil {
		return err
	}
	starts := make([]func(), r.Spec.Gateways)
	for i := range r.Spec.Gateways {
		g := &Gateway{name: gatewayPrefix + strconv.Itoa(i), path: r.Spec.Server, dir: dir, fork: r.forks}
		if i == 1 && r.Spec.OldServer != "" {
			g.path = r.Spec.OldServer
		}
		if err := r.Try(func() { g.addr = testenv.FreeAddress(r.tb) }); err != nil {
			return err
		}
		g.args = r.gatewayArgs(g.name, data)
		r.Gateways = append(r.Gateways, g)
		if r.Spec.GatewayLinks {
			if err := r.addLink(g.name, g.addr); err != nil {
				return err
			}
		}
		starts[i] = func() {
			if err := g.Start(ctx); err != nil {
				r.tb.Fatalf("%w", err)
			}
		}
	}
	return r.tb.all(starts...)
}

// gatewayData returns where a store of the gateway's own keeps its files: on a small disk if that is wanted.
func (r *Rig) gatewayData(dir string) (string, error) {
	if r.Spec.SmallDisk == 0 || r.Spec.Store != "sqlite" {
		return dir, nil
	}
	mount, err := smallDisk(r.Spec.SmallDisk)
	if err != nil {
		return "", err
	}
	volume := filepath.Join(dir, "volume") // of this name, so that the watcher of testenv unmounts it
	if err := os.Mkdir(volume, 0o700); err != nil {
		return "", err
	}
	unmount, err := mount(volume)
	if err != nil {
		return "", err
	}
	r.tb.Cleanup(func() {
		if err := unmount(); err != nil {
			r.tb.Errorf("unmount: %w", err)
		}
	})
	return volume, nil
}

// gatewayArgs are the arguments that say where lock and store are.
func (r *Rig) gatewayArgs(name, data string) []string {
	s := r.Spec
	args := []string{
		"--lock", s.Lock, "--store", s.Store, "--output", "json", "--log-format", "json", "--log-level", "warn",
		"--drain-delay", "100ms", "--stop-timeout", "5s",
	}
	if s.Store == "sqlite" {
		args = append(args, "--sqlite-path", filepath.Join(data, "store.db"))
	}
	switch {
	case s.Store == "redis":
		args = append(args, "--redis-url", r.redisURL(r.StoreName(), name))
	case s.Lock == "redis":
		args = append(args, "--redis-url", r.redisURL(r.LockNames()[0], name))
	}
	if s.Lock == "redlock" {
		var urls []string
		for _, node := range r.LockNames() {
			urls = append(urls, r.redisURL(node, name))
		}
		args = append(args, "--redlock-urls", strings.Join(urls, ","), "--redlock-max-ttl", redlockMaxTTL.String())
	}
	switch {
	case s.Store == "postgres":
		args = append(args, "--postgres-url", r.postgresURL(r.StoreName(), name))
	case s.Lock == "postgres":
		args = append(args, "--postgres-url", r.postgresURL(r.LockNames()[0], name))
	}
	return args
}
