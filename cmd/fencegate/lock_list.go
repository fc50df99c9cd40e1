package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/alecthomas/kong"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/gateway/wire"
	"github.com/fencegate/fencegate/locking"
)

type lockStatusCmd struct {
	Resource string `arg:"" help:"Whose lock."`
	targetFlags
	outputFlag
}

// Help implements kong.HelpProvider.
func (lockStatusCmd) Help() string {
	return "It is for looking, not for deciding: the answer may be old when it is read." + targetHelp
}

// Run implements the command.
func (c *lockStatusCmd) Run(ctx context.Context, k *kong.Context, std stdio) (err error) {
	if err := fencing.ValidateResource(c.Resource); err != nil {
		return usageError{err}
	}
	t, err := c.open(ctx, k, needLock|needShared)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	bound, cancel := t.bound(ctx, 0)
	defer cancel()
	st, err := t.issuer.Status(bound, c.Resource)
	if err != nil {
		return reads.of(err)
	}
	if c.Output == "json" {
		return writeJSON(std.out, wire.FromStatus(st))
	}
	text := "free"
	if st.Held {
		text = fmt.Sprintf("held by %s for %v unless renewed", cmp.Or(st.Label, "somebody"), st.Remaining.Round(time.Millisecond))
	}
	if st.Waiters > 0 {
		text += fmt.Sprintf(", %s", plural(st.Waiters, "waiter"))
	}
	_, err = fmt.Fprintf(std.out, "%s: %s, last number %s\n", st.Resource, text, number(st.Number))
	return err
}

// pageFlags choose a part of a list.
type pageFlags struct {
	Prefix string `env:"FENCEGATE_PREFIX" help:"Only names that begin with it."`
	After  string `env:"FENCEGATE_AFTER" help:"Only names that come after it: the last one of the page before."`
	Limit  int    `default:"100" env:"FENCEGATE_LIMIT" help:"How many at most, 1 to 1000 (default: ${default})."`
}

// valid says whether they are in range; names have the grammar of resources.
func (f pageFlags) valid() error {
	if f.Limit < 1 || f.Limit > 1000 {
		return usageError{&fencing.InvalidError{What: "--limit", Allowed: "1 to 1000"}}
	}
	for _, name := range []string{f.Prefix, f.After} {
		if name == "" {
			continue
		}
		if err := fencing.ValidateKey(name); err != nil {
			return usageError{fmt.Errorf("--prefix, --after: %w", err)}
		}
	}
	return nil
}

// next is what the page behind this one comes after, where there may be one.
func (f pageFlags) next(n int, last func() string) string {
	if n < f.Limit {
		return ""
	}
	return last()
}

// more tells of the page behind this one.
func more(std stdio, next string) {
	if next != "" {
		fmt.Fprintf(std.err, "there may be more: --after %s\n", next)
	}
}

type lockListCmd struct {
	pageFlags
	targetFlags
	outputFlag
}

// Help implements kong.HelpProvider.
func (lockListCmd) Help() string {
	return "Sorted by name. It is for looking, not for deciding: locks come and go meanwhile." + targetHelp
}

// Run implements the command.
func (c *lockListCmd) Run(ctx context.Context, k *kong.Context, std stdio) (err error) {
	if err := c.valid(); err != nil {
		return err
	}
	t, err := c.open(ctx, k, needLock|needShared)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	bound, cancel := t.bound(ctx, 0)
	defer cancel()
	list, err := t.issuer.List(bound, c.Prefix, c.After, c.Limit)
	if err != nil {
		return reads.of(err)
	}
	next := c.next(len(list), func() string { return list[len(list)-1].Resource })
	if c.Output == "json" {
		out := wire.LockList{Locks: make([]wire.LockStatus, len(list)), Next: next}
		for i, st := range list {
			out.Locks[i] = wire.FromStatus(st)
		}
		return writeJSON(std.out, out)
	}
	if err := tableOfLocks(std, list); err != nil {
		return err
	}
	more(std, next)
	return nil
}

func tableOfLocks(std stdio, list []locking.Status) error {
	w := tabwriter.NewWriter(std.out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "RESOURCE\tNUMBER\tREMAINING\tWAITERS\tLABEL")
	for _, st := range list {
		fmt.Fprintf(w, "%s\t%s\t%v\t%d\t%s\n", st.Resource, number(st.Number), st.Remaining.Round(time.Millisecond), st.Waiters, st.Label)
	}
	return w.Flush()
}

// hostLabel is what a holder calls itself that has no better name.
func hostLabel() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown-host"
	}
	host = strings.Map(func(r rune) rune {
		if r < '!' || r > '~' {
			return -1
		}
		return r
	}, host)
	return host[:min(len(host), 150)]
}
