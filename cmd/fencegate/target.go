package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/gateway/client"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/storage"
)

// targetFlags say whom a command talks to: a gateway, or the servers of a lock and a store.
type targetFlags struct {
	URL         []string      `name:"url" placeholder:"URL" env:"FENCEGATE_URL" help:"The gateway, http or https; with commas, several replicas of one."`
	APIKeyFile  string        `name:"api-key-file" placeholder:"FILE" env:"FENCEGATE_API_KEY_FILE" help:"Where the gateway's API key is. The key itself may be in the variable FENCEGATE_API_KEY."`
	InsecureKey bool          `env:"FENCEGATE_INSECURE_KEY" help:"Send the API key over plain http to other machines, too."`
	Timeout     time.Duration `default:"15s" env:"FENCEGATE_TIMEOUT" help:"How long one request may take, beside waiting for a lock (default: ${default})."`
	Lock        string        `enum:"redis,redlock,postgres,memory," default:"" placeholder:"KIND" env:"FENCEGATE_LOCK" help:"Without a gateway, where the lock is: redis, redlock, postgres."`
	Store       string        `enum:"redis,postgres,sqlite,memory," default:"" placeholder:"KIND" env:"FENCEGATE_STORE" help:"Without a gateway, where the data is: redis, postgres, sqlite."`
	Mode        string        `enum:"strict,classic" default:"strict" env:"FENCEGATE_MODE" help:"What the store does with a number that was never granted: strict refuses it, classic accepts and raises (default: ${default})."`
	RedisURL    []string      `name:"redis-url" placeholder:"URL" env:"FENCEGATE_REDIS_URL" help:"redis://HOST:PORT/DB, for --lock redis and --store redis; several are the nodes of --lock redlock."`
	PostgresURL string        `placeholder:"URL" env:"FENCEGATE_POSTGRES_URL" help:"postgres://USER@HOST:PORT/NAME, for --lock postgres and --store postgres."`
	SqlitePath  string        `placeholder:"FILE" env:"FENCEGATE_SQLITE_PATH" help:"The file of --store sqlite, which no other process may use meanwhile."`
	redlockFlags
	RedlockNodeTimeout time.Duration `name:"redlock-node-timeout" default:"50ms" env:"FENCEGATE_REDLOCK_NODE_TIMEOUT" help:"How long a call waits for a node of --lock redlock (default: ${default})."`
}

// targetHelp is what the help of every command says that has targetFlags.
const targetHelp = "\n\nWhom it talks to: with --url to a gateway; else, with --lock and --store, directly to their servers. " +
	"The command line comes before the environment, and a gateway in the environment before servers there. " +
	"The memory lock and a SQLite file live in one process: of a fencegate serve, use --url."

// recordStore is the surface that a store and a gateway's client share.
type recordStore interface {
	Commit(ctx context.Context, c storage.Commit) (storage.Result, error)
	Get(ctx context.Context, resource, key string) (storage.Record, error)
	GetFenced(ctx context.Context, t fencing.Token, key string) (storage.Record, error)
	List(ctx context.Context, resource, prefix, after string, limit int) ([]storage.Record, error)
	Mark(ctx context.Context, resource string) (fencing.Mark, error)
	Raise(ctx context.Context, t fencing.Token) error
}

var (
	_ recordStore = (*storage.Store)(nil)
	_ recordStore = (*client.Store)(nil)
)

// target is whom a command talks to. Exactly one of gateway and local is set.
type target struct {
	issuer  locking.Issuer
	store   recordStore
	gateway *client.Client
	local   *storage.Store
	env     []string // the variables that lead to it
	timeout time.Duration
	close   func() error
}

// need is what a command wants of its target.
type need int

const (
	needStore  need = 1 << iota // the data and the marks
	needLock                    // locks
	needShared                  // locks that are there for other processes, too
)

// gatewayOnly are the flags that only a gateway's target has; serversOnly the others'.
var (
	gatewayOnly = []string{"url", "api-key-file", "insecure-key"}
	serversOnly = []string{
		"lock", "store", "mode", "redis-url", "postgres-url", "sqlite-path",
		"redlock-urls", "redlock-max-ttl", "redlock-node-timeout", "redlock-few-nodes",
	}
)

// given returns one of the flags that is on the command line, or "".
func (targetFlags) given(k *kong.Context, names []string) string {
	for _, p := range k.Path {
		if p.Flag != nil && slices.Contains(names, p.Flag.Name) {
			return "--" + p.Flag.Name
		}
	}
	return ""
}

// byURL decides between the gateway and the servers.
func (f targetFlags) byURL(k *kong.Context) (bool, error) {
	url, servers := f.given(k, gatewayOnly), f.given(k, serversOnly)
	switch {
	case url != "" && servers != "":
		return false, usageError{fmt.Errorf("%s is for a gateway and %s for talking to the servers themselves: which of the two?", url, servers)}
	case servers != "":
		return false, nil
	case len(f.URL) > 0:
		return true, nil
	case url != "":
		return false, usageError{fmt.Errorf("%s needs --url, or FENCEGATE_URL", url)}
	case f.Lock == "" && f.Store == "":
		return false, usageError{errors.New("whom to talk to? --url (FENCEGATE_URL) of a gateway, or --lock and --store with their servers")}
	}
	return false, nil
}

// open opens the target; whoever opened it closes it. After an error nothing is open.
func (f targetFlags) open(ctx context.Context, k *kong.Context, n need) (*target, error) {
	if f.Timeout < 10*time.Millisecond || f.Timeout > 10*time.Minute {
		return nil, usageError{&fencing.InvalidError{What: "--timeout", Got: f.Timeout.String(), Allowed: "10ms to 10m"}}
	}
	byURL, err := f.byURL(k)
	if err != nil {
		return nil, err
	}
	if byURL {
		return f.openGateway()
	}
	return f.openServers(ctx, n)
}

func (f targetFlags) openGateway() (*target, error) {
	key, err := f.apiKey()
	if err != nil {
		return nil, err
	}
	c, err := client.New(f.URL[0], &client.Options{
		Others: f.URL[1:], APIKey: key, InsecureKey: f.InsecureKey, Timeout: f.Timeout,
	})
	if invalid, ok := errors.AsType[*fencing.InvalidError](err); ok {
		invalid.Allowed = strings.ReplaceAll(invalid.Allowed, "InsecureKey", "--insecure-key")
	}
	if err != nil {
		return nil, usageError{fmt.Errorf("--url: %w", err)}
	}
	return &target{
		issuer: c.Issuer(), store: c.Store(), gateway: c, env: f.gatewayEnv(key), timeout: f.Timeout,
		close: func() error { c.Close(); return nil },
	}, nil
}

// apiKey reads the key. There is no flag for it: every user of a machine sees the arguments
// of its processes.
func (f targetFlags) apiKey() (string, error) {
	key := os.Getenv("FENCEGATE_API_KEY")
	switch {
	case f.APIKeyFile == "":
		return key, nil
	case key != "" && f.APIKeyFile == os.Getenv("FENCEGATE_API_KEY_FILE"): // else the command line has it
		return "", usageError{errors.New("FENCEGATE_API_KEY and FENCEGATE_API_KEY_FILE are both set: which of the two?")}
	}
	key, err := readSecret(f.APIKeyFile, nil)
	if err != nil {
		return "", usageError{fmt.Errorf("--api-key-file: %w", err)}
	}
	return key, nil
}

// readSecret reads a file, or standard input for "-", that has one short line.
func readSecret(path string, stdin io.Reader) (string, error) {
	if path != "-" || stdin == nil {
		file, err := os.Open(path)
		if err != nil {
			return "", err
		}
		defer func() { _ = file.Close() }()
		stdin = file
	}
	const most = 4096
	data, err := io.ReadAll(io.LimitReader(stdin, most+1))
	text := strings.TrimSpace(string(data))
	if err == nil && (len(data) > most || text == "" || strings.ContainsAny(text, "\r\n")) {
		err = errors.New("want one line, and nothing else")
	}
	return text, err
}

// usable says what cannot work, before anything is opened.
func (f targetFlags) usable(n need) error {
	switch {
	case n&needShared != 0 && f.Lock == "memory":
		return usageError{errors.New("--lock memory is a lock within one process, and would end with this command: use --url of the fencegate serve that has it")}
	case n&needShared != 0 && n&needStore != 0 && (f.Store == "sqlite" || f.Store == "memory"):
		return usageError{fmt.Errorf("--store %s is used by one process at a time, and forgets all tokens with it: use --url of the fencegate serve that has it", f.Store)}
	case n&needLock != 0 && f.Lock == "":
		return usageError{errors.New("--lock is needed: where is the lock?")}
	case n&needStore != 0 && f.Store == "":
		return usageError{errors.New("--store is needed: where is the data?")}
	case n&needStore != 0 && f.Store == "memory":
		return usageError{errors.New("--store memory would be gone with this command: use --url of the fencegate serve that has it")}
	case n&needLock != 0 && f.Lock == "memory" && f.Store != "sqlite":
		return usageError{fmt.Errorf("--lock memory is a lock within this process, and others use the store %s: use --url, or --lock redis, redlock or postgres", f.Store)}
	case n&needStore != 0 && f.Store == "sqlite":
		return f.sqliteFile()
	}
	return nil
}

// sqliteFile looks for the file: to open it would make it.
func (f targetFlags) sqliteFile() error {
	if f.SqlitePath == "" {
		return usageError{errors.New("--sqlite-path is needed for --store sqlite")}
	}
	if _, err := os.Stat(f.SqlitePath); err != nil {
		if _, reason, ok := strings.Cut(err.Error(), ": "); ok {
			err = errors.New(reason)
		}
		return fmt.Errorf("%s cannot be opened: %w", f.SqlitePath, err)
	}
	return nil
}

func (f targetFlags) openServers(ctx context.Context, n need) (*target, error) {
	if err := f.usable(n); err != nil {
		return nil, err
	}
	b := backendFlags{
		Lock: "memory", Store: "memory", RedisURL: f.RedisURL, PostgresURL: f.PostgresURL, SqlitePath: f.SqlitePath,
		redlockFlags: f.redlockFlags, RedlockNodeTimeout: f.RedlockNodeTimeout,
	}
	if n&needLock != 0 {
		b.Lock = f.Lock
	}
	if n&needStore != 0 {
		b.Store = f.Store
	}
	opening, cancel := context.WithTimeout(ctx, f.Timeout)
	defer cancel()
	back, err := b.open(opening)
	if err != nil {
		return nil, err
	}
	o := storage.Options{}
	if f.Mode == "classic" {
		o.Mode = fencing.Classic
	}
	t := &target{env: f.serversEnv(), timeout: f.Timeout, close: back.close}
	if t.local, err = storage.New(back.store, &o); err == nil {
		var fences []fencing.Fence
		if n&needStore != 0 {
			fences = append(fences, t.local)
		}
		t.issuer, err = locking.NewIssuer(back.lock, fences, &locking.IssuerOptions{Cleanup: min(f.Timeout, 5*time.Second)})
	}
	if err != nil {
		return nil, errors.Join(err, back.close())
	}
	t.store = t.local
	return t, nil
}

// bound bounds what a command asks of its target, beside the waiting for a lock. A gateway's
// client bounds each attempt by itself.
func (t *target) bound(ctx context.Context, wait time.Duration) (context.Context, context.CancelFunc) {
	if t.gateway != nil || wait < 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, wait+t.timeout)
}
