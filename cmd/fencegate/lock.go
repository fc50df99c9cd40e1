package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/alecthomas/kong"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/gateway/wire"
	"github.com/fencegate/fencegate/locking"
)

// lockCmd is for scripts that take and free locks themselves.
type lockCmd struct {
	Acquire lockAcquireCmd `cmd:"" help:"Take a lock, and print its token."`
	Renew   lockRenewCmd   `cmd:"" help:"Let a lock last longer."`
	Release lockReleaseCmd `cmd:"" help:"End a token, and free its lock."`
	Status  lockStatusCmd  `cmd:"" help:"Say who holds a lock."`
	List    lockListCmd    `cmd:"" help:"List the locks that are held."`
}

// Help implements kong.HelpProvider.
func (lockCmd) Help() string {
	return "A lock ends with its lease time unless it is renewed, whether or not its work is done. " +
		"For one command, fencegate exec renews it, and ends the command when it is lost. " + exitHelp
}

type lockAcquireCmd struct {
	Resource string        `arg:"" help:"What to lock: coupon:42, say."`
	TTL      time.Duration `name:"ttl" default:"30s" env:"FENCEGATE_LOCK_TTL" help:"How long the lock is held unless it is renewed, 100ms to 1h (default: ${default})."`
	Wait     time.Duration `default:"0s" env:"FENCEGATE_LOCK_WAIT" help:"How long to wait while another holds it (default: not at all)."`
	Label    string        `env:"FENCEGATE_LOCK_LABEL" help:"What the holder calls itself, for all to see. Default: the host's name."`
	targetFlags
	outputFlag
}

// Help implements kong.HelpProvider.
func (lockAcquireCmd) Help() string {
	return "The token is all that is printed, so that FENCING_TOKEN=$(fencegate lock acquire coupon:42) works; export it for the commands that follow. " +
		"It is a secret: whoever has it may write, renew and release. " + exitHelp + targetHelp
}

// Run implements the command.
func (c *lockAcquireCmd) Run(ctx context.Context, k *kong.Context, std stdio) (err error) {
	if c.Wait < 0 {
		return usageError{&fencing.InvalidError{What: "--wait", Got: c.Wait.String(), Allowed: "0s or more"}}
	}
	r := locking.Request{Resource: c.Resource, Grant: fencing.NewGrant(), TTL: c.TTL, Wait: c.Wait, Label: c.Label}
	if r.Label == "" {
		r.Label = hostLabel()
	}
	if err := r.Validate(); err != nil {
		return usageError{err}
	}
	t, err := c.open(ctx, k, needLock|needStore|needShared)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	bound, cancel := t.bound(ctx, c.Wait)
	defer cancel()
	g, err := t.issuer.Grant(bound, r)
	if err != nil {
		return grants.of(err)
	}
	if err := c.print(std, g); err != nil { // nobody has the token
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.Timeout)
		defer cancel()
		_, released := t.issuer.Release(ctx, g.Token)
		return errors.Join(fmt.Errorf("the token could not be printed, and was given back: %w", err), grants.of(released))
	}
	return nil
}

func (c *lockAcquireCmd) print(std stdio, g locking.Granted) error {
	if c.Output == "json" {
		return writeJSON(std.out, wire.LockReply{
			Token: g.Token.Text(), Number: wire.Int(g.Token.Number),
			ExpiresIn: wire.Duration(g.ExpiresIn), Waited: wire.Duration(g.Waited),
		})
	}
	_, err := fmt.Fprintln(std.out, g.Token.Text())
	return err
}

type lockRenewCmd struct {
	Resource string        `arg:"" help:"Whose lock."`
	TTL      time.Duration `name:"ttl" default:"30s" env:"FENCEGATE_LOCK_TTL" help:"How long the lock is to last from now on, at least, 100ms to 1h (default: ${default})."`
	tokenFlags
	targetFlags
	outputFlag
}

// Help implements kong.HelpProvider.
func (lockRenewCmd) Help() string {
	return "The end of a lock is never brought nearer, and a lock that has ended is not revived: that is status 77." + handHelp + targetHelp
}

// Run implements the command.
func (c *lockRenewCmd) Run(ctx context.Context, k *kong.Context, std stdio) (err error) {
	if err := locking.ValidateTTL(c.TTL); err != nil {
		return usageError{err}
	}
	token, err := c.must(c.Resource, std.in)
	if err != nil {
		return err
	}
	t, err := c.open(ctx, k, needLock|needShared)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	bound, cancel := t.bound(ctx, 0)
	defer cancel()
	called := time.Now()
	if err := t.issuer.Renew(bound, c.TTL, []fencing.Token{token})[0]; err != nil {
		return changes.of(err)
	}
	left := c.TTL - time.Since(called)
	if c.Output == "json" {
		return changes.printed(writeJSON(std.out, wire.RenewReply{Number: wire.Int(token.Number), ExpiresIn: wire.Duration(left)}))
	}
	fmt.Fprintf(std.err, "renewed: %v is held for %v at least\n", token, left.Round(time.Millisecond))
	return nil
}

type lockReleaseCmd struct {
	Resource string `arg:"" help:"Whose lock."`
	tokenFlags
	targetFlags
	outputFlag
}

// Help implements kong.HelpProvider.
func (lockReleaseCmd) Help() string {
	return "The store accepts nothing with the token any more, and the next in line gets the lock. That the token held nothing any more is no error." +
		handHelp + targetHelp
}

// Run implements the command.
func (c *lockReleaseCmd) Run(ctx context.Context, k *kong.Context, std stdio) (err error) {
	token, err := c.must(c.Resource, std.in)
	if err != nil {
		return err
	}
	t, err := c.open(ctx, k, needLock|needStore|needShared)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	bound, cancel := t.bound(ctx, 0)
	defer cancel()
	freed, err := t.issuer.Release(bound, token)
	if freed {
		fmt.Fprintf(std.err, "released: %v\n", token)
	}
	if err != nil {
		if freed {
			err = fmt.Errorf("the lock is free, but a store may accept the token until the next grant: %w", err)
		}
		return changes.of(err)
	}
	if c.Output == "json" {
		return changes.printed(writeJSON(std.out, wire.ReleaseReply{Released: freed}))
	}
	if !freed {
		fmt.Fprintf(std.err, "nothing to release: this token, %v, held nothing any more\n", token)
	}
	return nil
}

// number prints what may be absent.
func number(n int64) string {
	if n == 0 {
		return "-"
	}
	return strconv.FormatInt(n, 10)
}
