package client_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	goredis "github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/gateway"
	"github.com/fencegate/fencegate/internal/pgtx/pgtxtest"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/internal/torture/client"
	"github.com/fencegate/fencegate/internal/torture/history"
	"github.com/fencegate/fencegate/internal/torture/workload"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/locking/memlock"
	"github.com/fencegate/fencegate/locking/redlock"
	"github.com/fencegate/fencegate/storage"
	"github.com/fencegate/fencegate/storage/memstore"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// process is a client that runs in this process.
type process struct {
	t     *testing.T
	stdin *io.PipeWriter
	lines chan history.Line // closed at the end
	done  chan error
}

func start(t *testing.T, c any) *process {
	t.Helper()
	in, stdin := io.Pipe()
	stdout, out := io.Pipe()
	p := &process{t: t, stdin: stdin, lines: make(chan history.Line, 100), done: make(chan error, 1)}
	go func() {
		err := client.Main(context.WithoutCancel(t.Context()), in, out)
		out.Close()
		p.done <- err
	}()
	go func() {
		defer close(p.lines)
		scan := bufio.NewScanner(stdout)
		scan.Buffer(nil, 1<<20)
		for scan.Scan() {
			var l history.Line
			dec := json.NewDecoder(strings.NewReader(scan.Text()))
			dec.DisallowUnknownFields()
			if err := dec.Decode(&l); err != nil {
				t.Errorf("the line %q: %v", scan.Text(), err)
			}
			p.lines <- l
		}
	}()
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stdin.Write(text); err != nil {
		t.Fatal(err)
	}
	return p
}

// next returns the next line.
func (p *process) next() history.Line {
	p.t.Helper()
	select {
	case l, ok := <-p.lines:
		if !ok {
			p.t.Fatal("the client ended")
		}
		return l
	case <-time.After(60 * time.Second):
		p.t.Fatal("the client says nothing")
	}
	return history.Line{}
}

// rest closes the client's input and returns what else it says.
func (p *process) rest() (all []history.Line) {
	p.t.Helper()
	p.stdin.Close()
	for l := range p.lines {
		all = append(all, l)
	}
	return all
}

func config(t *testing.T, e client.Endpoints, workloads ...string) client.Config {
	t.Helper()
	if workloads == nil {
		for _, w := range workload.All() {
			if w.Name() != "table" || e.StorePostgres != "" {
				workloads = append(workloads, w.Name())
			}
		}
	}
	return client.Config{
		Process: 2, Seed: 1, Seats: 12, Prefix: testenv.Unique(t, "run"), Workloads: workloads, Groups: 1, Endpoints: e,
		Options: workload.Options{
			TTL: 400 * time.Millisecond, Wait: time.Second, Call: 3 * time.Second, Hold: 2 * time.Millisecond, Late: 0.5, Odd: 0.1,
		},
	}
}

// database is the URL of one with everything that a client needs.
func database(t *testing.T) string {
	t.Helper()
	url := pgtxtest.NewDatabase(t)
	if err := workload.PrepareTables(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	return url
}

// gone waits until the servers know of no connection of a client.
func gone(t *testing.T, addr, url string) {
	t.Helper()
	c := goredis.NewClient(&goredis.Options{Addr: addr})
	defer c.Close()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	testenv.Eventually(t, 60*time.Second, "no connection is left", func() bool {
		list, err := c.ClientList(t.Context()).Result()
		if err != nil {
			t.Fatal(err)
		}
		var n int
		if err := conn.QueryRow(t.Context(), "select count(*) from pg_stat_activity where application_name like 'torture-client-%'").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return strings.Count(list, " addr=") == 1 && n == 0 // its own
	})
}

// serve returns the URL of a gateway with everything in memory.
func serve(t *testing.T) string {
	t.Helper()
	store, err := storage.New(memstore.New(nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	issuer, err := locking.NewIssuer(memlock.New(), []fencing.Fence{store}, nil)
	if err != nil {
		t.Fatal(err)
	}
	g, err := gateway.New(gateway.Options{Issuer: issuer, Store: store})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(g)
	t.Cleanup(server.Close)
	return server.URL
}

// cluster returns the addresses of the nodes of a new redlock cluster.
func cluster(t *testing.T) (nodes []string) {
	t.Helper()
	var clients []goredis.UniversalClient
	for range 3 {
		addr := testenv.StartRedis(t, nil).Addr()
		c := goredis.NewClient(&goredis.Options{Addr: addr, MaxRetries: -1, ContextTimeoutEnabled: true})
		defer c.Close()
		nodes, clients = append(nodes, addr), append(clients, c)
	}
	b, err := redlock.New(clients, &redlock.Options{NodeTimeout: 10 * time.Second}) // a busy machine is no silent node
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Init(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	return nodes
}

// TestMainServes: over every lock and store a client takes turns, ends with its input, and leaves nothing. It is not
// parallel: goroutines that begin meanwhile are leaks of the client.
func TestMainServes(t *testing.T) { //nolint:paralleltest // see there
	redis, url := testenv.SharedRedis(t), database(t)
	gateways := []string{serve(t), ""}
	gateways[1] = gateways[0] + "/" // the same one, as if there were two
	nodes := cluster(t)
	for _, tt := range []struct { //nolint:paralleltest // see there
		name string
		e    client.Endpoints
	}{
		{"redis and postgres", client.Endpoints{Lock: "redis", LockRedis: []string{redis.Addr()}, Store: "postgres", StorePostgres: url, Pool: 10}},
		{"postgres and redis", client.Endpoints{Lock: "postgres", LockPostgres: url, Store: "redis", StoreRedis: redis.Addr()}},
		{"postgres alone", client.Endpoints{Lock: "postgres", LockPostgres: url, Store: "postgres", StorePostgres: url}},
		{"redis alone", client.Endpoints{Lock: "redis", LockRedis: []string{redis.Addr()}, Store: "redis", StoreRedis: redis.Addr()}},
		{"row locks", client.Endpoints{Lock: "rowlock", LockPostgres: url, Store: "postgres", StorePostgres: url}},
		{"redlock", client.Endpoints{Lock: "redlock", LockRedis: nodes, Store: "postgres", StorePostgres: url}},
		{"gateways", client.Endpoints{Gateways: gateways}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := config(t, tt.e)
			p := start(t, c)
			if l := p.next(); !l.Ready {
				t.Fatalf("the first line is %+v, want Ready", l)
			}
			ops := map[string]history.Op{}
			names := map[string]int{}
			take := func(l history.Line) {
				if l.Op == nil {
					return
				}
				if l.Op.Process != 2 || l.Op.Seat < 0 || l.Op.Seat >= c.Seats || !strings.HasPrefix(l.Op.Group, c.Prefix) {
					t.Fatalf("an op of somebody else: %+v", l.Op)
				}
				if old, ok := ops[l.Op.ID]; !ok && l.Op.Return != 0 || ok && old.Return != 0 {
					t.Fatalf("%s was written down in another order: %+v", l.Op.ID, l.Op)
				}
				ops[l.Op.ID] = *l.Op
				// Nobody has seeded a stock: a coupon is refused by the data.
				if l.Op.Kind == history.Commit && (l.Op.Outcome == "applied" || l.Op.Reason == "below-minimum") {
					names[l.Op.Workload]++
				}
				if l.Op.Once {
					names["once"]++
				}
			}
			complete := func() bool {
				return !slices.ContainsFunc(c.Workloads, func(w string) bool { return names[w] == 0 })
			}
			for end := time.Now().Add(2 * time.Second); time.Now().Before(end) || !complete() && time.Since(end) < 30*time.Second; {
				take(p.next())
			}
			rest := p.rest()
			for _, l := range rest {
				take(l)
				if l.Leak != nil {
					t.Errorf("left over: %+v", l.Leak)
				}
			}
			if err := <-p.done; err != nil || len(rest) == 0 || !rest[len(rest)-1].Done {
				t.Errorf("it ended with %v, and the last line was not Done", err)
			}
			gone(t, redis.Addr(), url)
			count := map[string]int{}
			for id, op := range ops {
				if op.Return == 0 {
					t.Errorf("%s has no answer", id)
				}
				count[string(op.Kind)+" "+op.Outcome+" "+op.Reason]++
				if op.Forged && op.Outcome != "refused" {
					t.Errorf("%s was forged, and is %s: %s", op.ID, op.Outcome, op.Error)
				}
			}
			for _, w := range c.Workloads {
				if names[w] == 0 {
					t.Errorf("%s applied nothing", w)
				}
			}
			if once := names["once"] > 0; once != (tt.e.Gateways != nil) {
				t.Errorf("%d one-call commits", names["once"])
			}
			t.Logf("%d ops: %v", len(ops), count)
		})
	}
}

// TestWaitsForServers: a client whose servers are down says so, and serves once they are up.
func TestWaitsForServers(t *testing.T) { //nolint:paralleltest // see TestMainServes
	server := testenv.StartRedis(t, nil)
	addr := server.Addr()
	server.Kill()
	p := start(t, config(t, client.Endpoints{Lock: "redis", LockRedis: []string{addr}, Store: "redis", StoreRedis: addr}, "register"))
	if l := p.next(); !strings.Contains(l.Note, "opening") {
		t.Fatalf("the first line is %+v, want a note", l)
	}
	server.Restart()
	for !p.next().Ready { // other notes may come first
	}
	for { // a server that ends every token is asked again
		if l := p.next(); l.Op != nil && l.Op.Kind == history.Commit && l.Op.Outcome == "applied" {
			break
		}
	}
	server.Kill()
	for { // a dead one is not hammered, and no call stays without an answer
		if l := p.next(); l.Op != nil && l.Op.Kind == history.Acquire && l.Op.Outcome == "failed" {
			break
		}
	}
	server.Restart()
	rest := p.rest()
	for _, l := range rest {
		if l.Leak != nil && !strings.Contains(l.Leak.Text, "testenv.spawn") { // which restarted the server
			t.Errorf("left over: %+v", l.Leak)
		}
	}
	if err := <-p.done; err != nil || !rest[len(rest)-1].Done {
		t.Errorf("it ended with %v, and the last line was not Done", err)
	}
}

// TestLeaksAreSeen: what is left over is written down.
func TestLeaksAreSeen(t *testing.T) { //nolint:paralleltest // see TestMainServes
	url := database(t)
	redis := testenv.SharedRedis(t)
	p := start(t, config(t, client.Endpoints{Lock: "redis", LockRedis: []string{redis.Addr()}, Store: "postgres", StorePostgres: url}, "register"))
	for !p.next().Ready {
	}
	stop := make(chan struct{})
	go func() { <-stop }() // begins while it runs, and stays
	defer close(stop)
	found := false
	for _, l := range p.rest() {
		found = found || l.Leak != nil && l.Leak.What == "goroutines" && l.Leak.Count == 1 && strings.Contains(l.Leak.Text, "TestLeaksAreSeen")
	}
	if !found {
		t.Error("the goroutine was not written down")
	}
	<-p.done
}

// TestBadConfigs: a config that is wrong is an error, which is noted.
func TestBadConfigs(t *testing.T) {
	t.Parallel()
	good := config(t, client.Endpoints{Lock: "redis", LockRedis: []string{"127.0.0.1:1"}, Store: "redis", StoreRedis: "127.0.0.1:1"}, "register")
	for what, change := range map[string]func(*client.Config){
		"seats":     func(c *client.Config) { c.Seats = 0 },
		"groups":    func(c *client.Config) { c.Groups = 0 },
		"workloads": func(c *client.Config) { c.Workloads = nil },
		"workload":  func(c *client.Config) { c.Workloads = []string{"chess"} },
		"call":      func(c *client.Config) { c.Call = 0 },
		"wait":      func(c *client.Config) { c.Wait = 0 },
		"lock":      func(c *client.Config) { c.Lock = "paper" },
		"store":     func(c *client.Config) { c.Store = "paper" },
		"nodes":     func(c *client.Config) { c.LockRedis = nil },
		"tables":    func(c *client.Config) { c.Workloads = []string{"table"} },
	} {
		c := good
		change(&c)
		p := start(t, c)
		lines := p.rest()
		err := <-p.done
		if !errors.Is(err, fencing.ErrInvalid) {
			t.Errorf("%s: got %v, want an invalid value", what, err)
		}
		if !slices.ContainsFunc(lines, func(l history.Line) bool { return l.Note != "" }) || slices.ContainsFunc(lines, func(l history.Line) bool { return l.Done }) {
			t.Errorf("%s: it said %+v, want a note and no Done", what, lines)
		}
	}
}

// TestNobodyReads: a client whose lines nobody reads ends.
func TestNobodyReads(t *testing.T) { //nolint:paralleltest // see TestMainServes
	redis := testenv.SharedRedis(t)
	in, stdin := io.Pipe()
	defer stdin.Close()
	stdout, out := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- client.Main(t.Context(), in, out) }()
	text, err := json.Marshal(config(t, client.Endpoints{Lock: "redis", LockRedis: []string{redis.Addr()}, Store: "redis", StoreRedis: redis.Addr()}, "register"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stdin.Write(text); err != nil {
		t.Fatal(err)
	}
	stdout.Close()
	select {
	case err := <-done:
		if !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("got %v, want a closed pipe", err)
		}
	case <-time.After(30 * time.Second):
		t.Error("it goes on")
	}
}
