package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/fencegate/fencegate/storage"
)

// storeFlags choose a store that outlives its process.
type storeFlags struct {
	Store       string `required:"" enum:"sqlite,redis,postgres" env:"FENCEGATE_STORE" help:"Where the data is: ${enum}."`
	RedisURL    string `placeholder:"URL" env:"FENCEGATE_REDIS_URL" help:"redis://HOST:PORT/DB, for --store redis."`
	PostgresURL string `placeholder:"URL" env:"FENCEGATE_POSTGRES_URL" help:"postgres://USER@HOST:PORT/NAME, for --store postgres."`
	SqlitePath  string `placeholder:"FILE" env:"FENCEGATE_SQLITE_PATH" help:"The file of --store sqlite."`
}

// backends are flags that open this store, and no lock.
func (f storeFlags) backends() backendFlags {
	return backendFlags{Lock: "memory", Store: f.Store, RedisURL: f.RedisURL, PostgresURL: f.PostgresURL, SqlitePath: f.SqlitePath}
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
	AllMarks bool `help:"Retire every mark of the store."`
	Yes      bool `short:"y" help:"Do not ask."`
	storeFlags
}

// Help implements kong.HelpProvider.
func (evictCmd) Help() string {
	return "With --all-marks, every token that was granted before is refused from then on; data, numbers and locks stay. " +
		"It is for what no store notices by itself: a dump that was loaded into a running database, rows edited by hand. " +
		"A restart, a failover and a restored backup end all tokens without it. " +
		"Holders learn it by their next refused operation and acquire anew, so it may run beside them; it may be repeated. " +
		"A transaction that holds a mark is waited for, as in every eviction. See docs/operations.md for restoring."
}

// Run implements the command.
func (c *evictCmd) Run(ctx context.Context, std stdio) (err error) {
	if !c.AllMarks {
		return usageError{errors.New("what is to be evicted? --all-marks")}
	}
	if c.Store == "sqlite" {
		if c.SqlitePath == "" {
			return usageError{errors.New("--sqlite-path is needed for --store sqlite")}
		}
		if _, err := os.Stat(c.SqlitePath); err != nil { // to open it would make it
			return fmt.Errorf("%s cannot be opened: %w", c.SqlitePath, cmp.Or(errors.Unwrap(err), err))
		}
	}
	if !c.Yes {
		ok, err := confirm(ctx, std, "This ends every lease on the "+c.Store+" store "+c.where()+".")
		if err != nil || !ok {
			return err
		}
	}
	back, err := c.backends().open(ctx)
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
