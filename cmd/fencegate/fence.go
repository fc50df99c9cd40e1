package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/alecthomas/kong"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/gateway/wire"
	"github.com/fencegate/fencegate/storage"
)

// fenceCmd looks at marks.
type fenceCmd struct {
	Show  fenceShowCmd  `cmd:"" help:"Print the number of a resource's mark."`
	Check fenceCheckCmd `cmd:"" help:"Say whether a token is current."`
	Raise fenceRaiseCmd `cmd:"" help:"Make a token of an outside lock service the mark, in a classic store."`
}

// Help implements kong.HelpProvider.
func (fenceCmd) Help() string {
	return "The mark of a resource is the highest token that the store has seen: every older one is refused. " + exitHelp
}

type fenceShowCmd struct {
	Resource string `arg:"" help:"Whose mark."`
	targetFlags
	outputFlag
}

// Help implements kong.HelpProvider.
func (fenceShowCmd) Help() string {
	return "A mark that is retired equals no token any more; 0 is the number of a resource that the store has never seen." + targetHelp
}

// Run implements the command.
func (c *fenceShowCmd) Run(ctx context.Context, k *kong.Context, std stdio) (err error) {
	if err := fencing.ValidateResource(c.Resource); err != nil {
		return usageError{err}
	}
	t, err := c.open(ctx, k, needStore)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	bound, cancel := t.bound(ctx, 0)
	defer cancel()
	m, err := t.store.Mark(bound, c.Resource)
	if err != nil {
		return reads.of(err)
	}
	if c.Output == "json" {
		return writeJSON(std.out, wire.Fence{Number: wire.Int(m.Number), Retired: m.Retired})
	}
	_, err = fmt.Fprintln(std.out, m)
	return err
}

type fenceCheckCmd struct {
	Resource string `arg:"" help:"Whose token."`
	tokenFlags
	targetFlags
	outputFlag
}

// Help implements kong.HelpProvider.
func (fenceCheckCmd) Help() string {
	return "Status 0 says that the token is the mark, 76 that it is refused, and why. It is for looking, not for deciding: " +
		"the answer is old when it is read, and the store judges every write anew." + handHelp + targetHelp
}

// Run implements the command.
func (c *fenceCheckCmd) Run(ctx context.Context, k *kong.Context, std stdio) (err error) {
	token, err := c.must(c.Resource, std.in)
	if err != nil {
		return err
	}
	t, err := c.open(ctx, k, needStore)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	bound, cancel := t.bound(ctx, 0)
	defer cancel()
	err = t.current(bound, token)
	stale, refused := errors.AsType[*fencing.StaleError](err)
	if err != nil && !refused {
		return reads.of(err)
	}
	verdict := struct {
		Current bool      `json:"current"`
		Number  wire.Int  `json:"number"`
		Highest *wire.Int `json:"highest,omitempty"`
		Reason  string    `json:"reason,omitempty"`
	}{Current: !refused, Number: wire.Int(token.Number)}
	if refused {
		verdict.Highest, verdict.Reason = wire.Ptr(stale.Highest), string(stale.Reason)
	}
	if c.Output == "json" {
		if err := writeJSON(std.out, verdict); err != nil {
			return err
		}
	} else if !refused {
		if _, err := fmt.Fprintln(std.out, token, "is current"); err != nil {
			return err
		}
	}
	return reads.of(err)
}

// current says whether a token is its resource's mark, and changes nothing: a fenced read raises
// a classic store's mark, but not to the number that it has.
func (t *target) current(ctx context.Context, token fencing.Token) error {
	m, err := t.store.Mark(ctx, token.Resource)
	if err != nil {
		return err
	}
	m.Grant = token.Grant // a gateway does not tell the mark's: the store compares it
	if err := m.Current(token); err != nil {
		return err
	}
	_, err = t.store.GetFenced(ctx, token, "any")
	if errors.Is(err, storage.ErrNotFound) {
		return nil
	}
	return err
}

type fenceRaiseCmd struct {
	Resource string `arg:"" help:"Whose mark."`
	tokenFlags
	targetFlags
	outputFlag
}

// Help implements kong.HelpProvider.
func (fenceRaiseCmd) Help() string {
	return "From then on every lower number is refused, for ever. The token is a number of an outside lock service. " +
		"A strict store refuses: there a number is raised by granting a lock, and in no other way. " +
		"Of servers that are talked to directly, --mode says which it is." + handHelp + targetHelp
}

// Run implements the command.
func (c *fenceRaiseCmd) Run(ctx context.Context, k *kong.Context, std stdio) (err error) {
	token, err := c.must(c.Resource, std.in)
	if err != nil {
		return err
	}
	t, err := c.open(ctx, k, needStore)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	if t.local != nil && t.local.Mode() != fencing.Classic {
		return statusError{exitRefused, errors.New("a strict store takes no number from outside, or --mode classic is missing; nothing was changed")}
	}
	bound, cancel := t.bound(ctx, 0)
	defer cancel()
	if err := t.store.Raise(bound, token); err != nil {
		return changes.of(err)
	}
	if c.Output == "json" {
		return changes.printed(writeJSON(std.out, wire.Fence{Number: wire.Int(token.Number)}))
	}
	fmt.Fprintf(std.err, "raised: every token of %s below %d is refused\n", token.Resource, token.Number)
	return nil
}
