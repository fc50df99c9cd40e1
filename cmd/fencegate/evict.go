package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"golang.org/x/term"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/gateway/wire"
	"github.com/fencegate/fencegate/storage"
)

// storeFlags are a store that outlives its process.
type storeFlags struct {
	Store       string // sqlite, redis or postgres
	RedisURL    string
	PostgresURL string
	SqlitePath  string
}

// backends are flags that open this store, and no lock.
func (f storeFlags) backends() backendFlags {
	return backendFlags{Lock: "memory", Store: f.Store, RedisURL: []string{f.RedisURL}, PostgresURL: f.PostgresURL, SqlitePath: f.SqlitePath}
}

// where names the store, without a password.
func (f storeFlags) where() string {
	if f.Store == "sqlite" {
		return f.SqlitePath
	}
	raw := f.RedisURL
	if f.Store == "postgres" {
		raw = f.PostgresURL
	}
	if u, err := url.Parse(raw); err == nil && u.Host != "" {
		return u.Host + strings.TrimSuffix(u.Path, "/")
	}
	return f.Store
}

type evictCmd struct {
	Resource string `arg:"" optional:"" help:"Whose token; not with --all-marks."`
	Number   int64  `placeholder:"N" env:"FENCEGATE_EVICT_NUMBER" help:"The token's number, as lock status shows it."`
	Reason   string `env:"FENCEGATE_EVICT_REASON" help:"Why, for the log: at most 200 characters of printable ASCII."`
	AllMarks bool   `env:"FENCEGATE_EVICT_ALL_MARKS" help:"Retire every mark of a store."`
	Yes      bool   `short:"y" env:"FENCEGATE_EVICT_YES" help:"Do not ask, with --all-marks."`
	targetFlags
	outputFlag
}

// Help implements kong.HelpProvider.
func (evictCmd) Help() string {
	return "A holder that is evicted loses its lock, and nothing is accepted with its token any more, whatever it does and however late; the next in line gets the lock." +
		"\n\nWith --all-marks, every token that was granted before is refused from then on; data, numbers and locks stay. " +
		"It is for what no store notices by itself: a dump that was loaded into a running database, rows edited by hand. " +
		"A restart, a failover and a restored backup end all tokens without it. " +
		"Holders learn it by their next refused operation and acquire anew, so it may run beside them; it may be repeated. " +
		"A transaction that holds a mark is waited for, as in every eviction. It wants the store itself, not a gateway. " +
		"See docs/operations.md for restoring. " + exitHelp + targetHelp
}

// Run implements the command.
func (c *evictCmd) Run(ctx context.Context, k *kong.Context, std stdio) error {
	switch {
	case c.AllMarks && (c.Resource != "" || c.Number != 0 || c.Reason != ""):
		return usageError{errors.New("a resource with --number, or --all-marks: which of the two?")}
	case c.AllMarks:
		return c.all(ctx, k, std)
	case c.Resource == "" || c.Number == 0:
		return usageError{errors.New("what is to be evicted? RESOURCE --number N, or --all-marks")}
	}
	return c.one(ctx, k, std)
}

// evicted is what is printed as JSON.
type evicted struct {
	Resource string    `json:"resource,omitempty"`
	Number   *wire.Int `json:"number,omitempty"`
	Marks    *int      `json:"marks,omitempty"` // with --all-marks
}

// one evicts the token of a number.
func (c *evictCmd) one(ctx context.Context, k *kong.Context, std stdio) (err error) {
	token := fencing.Token{Resource: c.Resource, Number: c.Number}
	if err := token.Validate(); err != nil {
		return usageError{err}
	}
	if c.Reason == "" {
		return usageError{errors.New("why? --reason, for whoever finds the holder evicted")}
	}
	if len(c.Reason) > 200 || strings.ContainsFunc(c.Reason, func(r rune) bool { return r < ' ' || r > '~' }) {
		return usageError{&fencing.InvalidError{What: "--reason", Allowed: "at most 200 characters of printable ASCII"}}
	}
	t, err := c.open(ctx, k, needLock|needStore|needShared)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	bound, cancel := t.bound(ctx, 0)
	defer cancel()
	if err := t.issuer.Evict(bound, c.Resource, c.Number, c.Reason); err != nil {
		return changes.of(err)
	}
	if c.Output == "json" {
		return changes.printed(writeJSON(std.out, evicted{Resource: c.Resource, Number: wire.Ptr(c.Number)}))
	}
	fmt.Fprintf(std.err, "evicted: nothing is accepted with %v any more\n", token)
	return nil
}

// all retires every mark of a store.
func (c *evictCmd) all(ctx context.Context, k *kong.Context, std stdio) (err error) {
	if c.given(k, gatewayOnly) != "" {
		return usageError{errors.New("--all-marks is for the store itself: --store, and its server")}
	}
	var redisURL string
	if len(c.RedisURL) > 0 {
		redisURL = c.RedisURL[0]
	}
	f := storeFlags{Store: c.Store, RedisURL: redisURL, PostgresURL: c.PostgresURL, SqlitePath: c.SqlitePath}
	if err := c.usable(needStore); err != nil {
		return err
	}
	if !c.Yes {
		ok, err := confirm(ctx, std, "This ends every lease on the "+c.Store+" store "+f.where()+".")
		if err != nil || !ok {
			return err
		}
	}
	back, err := f.backends().open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, back.close()) }()
	store, ok := back.store.(storage.AllEvicter)
	if !ok {
		return fmt.Errorf("--store %s: this store cannot evict all marks", c.Store)
	}
	n, err := store.EvictAll(ctx, count(std.err, "marks retired"))
	if err != nil {
		return fmt.Errorf("%d marks were retired, not all, run it again: %w", n, err)
	}
	if c.Output == "json" {
		return changes.printed(writeJSON(std.out, evicted{Marks: &n}))
	}
	fmt.Fprintf(std.err, "done: %d marks retired; every token that was granted before is refused\n", n)
	return nil
}

// errNobodyToAsk is for what needs an answer, or --yes.
var errNobodyToAsk = errors.New("standard input is not a terminal, so nobody can be asked: add --yes if it is what you want")

// confirm asks the user of a terminal. Only an answer that begins with y is a yes.
func confirm(ctx context.Context, std stdio, what string) (bool, error) {
	f, ok := std.in.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return false, usageError{errNobodyToAsk}
	}
	fmt.Fprint(std.err, what, " Go on? [y/N] ")
	answer := make(chan string, 1)
	go func() { // an interrupt must not wait for the answer
		line, _ := bufio.NewReader(f).ReadString('\n')
		answer <- line
	}()
	select {
	case <-ctx.Done():
		fmt.Fprintln(std.err)
		return false, ctx.Err()
	case line := <-answer:
		if strings.HasPrefix(strings.ToLower(strings.TrimSpace(line)), "y") {
			return true, nil
		}
		return false, errors.New("nothing was changed")
	}
}

// count returns a function that tells w a growing number: at most every second on a terminal,
// on one line, and every ten elsewhere.
func count(w io.Writer, what string) func(int) {
	f, ok := w.(*os.File)
	live := ok && term.IsTerminal(int(f.Fd()))
	every := 10 * time.Second
	if live {
		every = time.Second
	}
	told := time.Now()
	return func(n int) {
		if time.Since(told) < every {
			return
		}
		told = time.Now()
		if live {
			fmt.Fprintf(w, "\r%d %s\r", n, what)
			return
		}
		fmt.Fprintf(w, "%d %s\n", n, what)
	}
}
