package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/alecthomas/kong"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/gateway/wire"
	"github.com/fencegate/fencegate/storage"
)

// writeFlags are what every write of one record has.
type writeFlags struct {
	Wait           *time.Duration `env:"FENCEGATE_RECORDS_WAIT" help:"Without a token: take the lock for this write, and wait so long for it."`
	IfVersion      *int64         `env:"FENCEGATE_RECORDS_IF_VERSION" help:"Only if the record has this version; 0 for none."`
	IdempotencyKey string         `placeholder:"KEY" env:"FENCEGATE_RECORDS_IDEMPOTENCY_KEY" help:"Makes it safe to send the write again: it is applied at most once. Any name that is new for every write, such as a UUID."`
	tokenFlags
	targetFlags
	outputFlag
}

// write commits one operation, and require before it where a version is asked for.
func (f *writeFlags) write(ctx context.Context, k *kong.Context, std stdio, op storage.Op) (_ storage.OpResult, err error) {
	var c storage.Commit
	if f.IfVersion != nil {
		if *f.IfVersion < 0 {
			return storage.OpResult{}, usageError{&fencing.InvalidError{What: "--if-version", Allowed: "0 or more"}}
		}
		c.Ops = append(c.Ops, storage.Require(op.Resource, op.Key, *f.IfVersion))
	}
	c.Ops, c.Key = append(c.Ops, op), f.IdempotencyKey
	token, ok, err := f.token(op.Resource, std.in)
	if err != nil {
		return storage.OpResult{}, err
	}
	switch {
	case ok && f.Wait != nil:
		return storage.OpResult{}, usageError{errors.New("there is a token, and --wait would take the lock anew: which of the two?")}
	case ok:
		c.Tokens = []fencing.Token{token}
	case f.Wait == nil:
		return storage.OpResult{}, usageError{fmt.Errorf("%w; or --wait to take the lock for this write", noToken(op.Resource))}
	}
	res, err := f.commit(ctx, k, std, c, alone{wait: f.Wait})
	if err != nil {
		return storage.OpResult{}, err
	}
	return res.Ops[len(res.Ops)-1], nil
}

// commit carries out a commit with its tokens, or, without, under locks of its own.
func (f targetFlags) commit(ctx context.Context, k *kong.Context, std stdio, c storage.Commit, a alone) (_ storage.Result, err error) {
	n := needStore
	if a.wait != nil {
		if *a.wait < 0 {
			return storage.Result{}, usageError{&fencing.InvalidError{What: "--wait", Got: a.wait.String(), Allowed: "0s or more"}}
		}
		n |= needLock
	}
	for _, op := range c.Ops {
		if err := errors.Join(fencing.ValidateResource(op.Resource), fencing.ValidateKey(op.Key)); err != nil {
			return storage.Result{}, usageError{err}
		}
	}
	if c.Key != "" {
		if err := fencing.ValidateKey(c.Key); err != nil {
			return storage.Result{}, usageError{fmt.Errorf("--idempotency-key: %w", err)}
		}
	}
	t, err := f.open(ctx, k, n)
	if err != nil {
		return storage.Result{}, err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	var res storage.Result
	if a.wait == nil {
		bound, cancel := t.bound(ctx, 0)
		defer cancel()
		res, err = t.store.Commit(bound, c)
	} else {
		res, err = t.commitAlone(ctx, std, c, a)
	}
	if err != nil {
		if c.Key != "" && fencing.OutcomeOf(err) == fencing.Unknown {
			err = fmt.Errorf("%w; run the same command again: it is applied at most once", err)
		}
		return res, writes.of(err)
	}
	if res.Replayed {
		fmt.Fprintln(std.err, "the commit had been applied before, under this key: its answer of then")
	}
	return res, nil
}

// recordReply is what a write prints as JSON.
type recordReply struct {
	Key     string    `json:"key"`
	Version wire.Int  `json:"version"`
	Counter *wire.Int `json:"counter,omitempty"`
}

type recordsPutCmd struct {
	Resource string  `arg:"" help:"Whose record."`
	Key      string  `arg:"" help:"Which one."`
	Value    *string `arg:"" optional:"" help:"The value. Default: what --file or standard input has."`
	File     string  `placeholder:"FILE" env:"FENCEGATE_RECORDS_FILE" help:"Where the value is, - for standard input."`
	IfAbsent bool    `env:"FENCEGATE_RECORDS_IF_ABSENT" help:"Only if there is no such record."`
	writeFlags
}

// Help implements kong.HelpProvider.
func (recordsPutCmd) Help() string {
	return "The value is any bytes. Its new version is told on standard error, and as JSON on standard output." + handHelp + " " + exitHelp + targetHelp
}

// Run implements the command.
func (c *recordsPutCmd) Run(ctx context.Context, k *kong.Context, std stdio) error {
	if c.IfAbsent {
		if c.IfVersion != nil {
			return usageError{errors.New("--if-absent and --if-version: which of the two?")}
		}
		c.IfVersion = new(int64)
	}
	value, err := c.value(std.in)
	if err != nil {
		return err
	}
	res, err := c.write(ctx, k, std, storage.Put(c.Resource, c.Key, value))
	if err != nil {
		return err
	}
	if c.Output == "json" {
		return writes.printed(writeJSON(std.out, recordReply{Key: c.Key, Version: wire.Int(res.Version)}))
	}
	fmt.Fprintf(std.err, "written: %s/%s, version %d\n", c.Resource, c.Key, res.Version)
	return nil
}

// maxValue is the largest value that a store may be set up for.
const maxValue = 64 << 20

func (c *recordsPutCmd) value(stdin io.Reader) ([]byte, error) {
	from := cmp.Or(c.File, "-")
	switch {
	case c.Value != nil && c.File != "":
		return nil, usageError{errors.New("a value and --file: which of the two?")}
	case c.Value != nil:
		return []byte(*c.Value), nil
	case from == "-" && c.TokenFile == "-":
		return nil, usageError{errors.New("standard input cannot be the token and the value")}
	case from != "-":
		file, err := os.Open(from)
		if err != nil {
			return nil, usageError{fmt.Errorf("--file: %w", err)}
		}
		defer func() { _ = file.Close() }()
		stdin = file
	}
	value, err := io.ReadAll(io.LimitReader(stdin, maxValue+1))
	if err == nil && len(value) > maxValue {
		err = usageError{&fencing.InvalidError{What: "value", Allowed: "at most 64 MiB"}}
	}
	if err != nil {
		return nil, fmt.Errorf("reading the value: %w", err)
	}
	return value, nil
}

type recordsDeleteCmd struct {
	Resource string `arg:"" help:"Whose record."`
	Key      string `arg:"" help:"Which one."`
	writeFlags
}

// Help implements kong.HelpProvider.
func (recordsDeleteCmd) Help() string {
	return "That there is no such record is no error, unless --if-version asks for one." + handHelp + " " + exitHelp + targetHelp
}

// Run implements the command.
func (c *recordsDeleteCmd) Run(ctx context.Context, k *kong.Context, std stdio) error {
	if _, err := c.write(ctx, k, std, storage.Delete(c.Resource, c.Key)); err != nil {
		return err
	}
	if c.Output == "json" {
		return writes.printed(writeJSON(std.out, recordReply{Key: c.Key}))
	}
	fmt.Fprintf(std.err, "gone: %s/%s\n", c.Resource, c.Key)
	return nil
}

type recordsAddCmd struct {
	Resource string `arg:"" help:"Whose record."`
	Key      string `arg:"" help:"Which one; one that is not there counts as 0."`
	Delta    int64  `arg:"" help:"What to add; a negative number behind --, as in: records add --min=0 coupon:42 stock -- -1"`
	Min      *int64 `env:"FENCEGATE_RECORDS_MIN" help:"Refuse a sum below it. Default: no minimum."`
	writeFlags
}

// Help implements kong.HelpProvider.
func (recordsAddCmd) Help() string {
	return "A counter is a record whose value is an integer in decimal text." + handHelp + " " + exitHelp + targetHelp
}

// Run implements the command.
func (c *recordsAddCmd) Run(ctx context.Context, k *kong.Context, std stdio) error {
	least := int64(storage.NoMinimum)
	if c.Min != nil {
		least = *c.Min
	}
	res, err := c.write(ctx, k, std, storage.Add(c.Resource, c.Key, c.Delta, least))
	if err != nil {
		return err
	}
	if c.Output == "json" {
		return writes.printed(writeJSON(std.out, recordReply{Key: c.Key, Version: wire.Int(res.Version), Counter: wire.Ptr(res.Counter)}))
	}
	_, err = fmt.Fprintln(std.out, res.Counter)
	return writes.printed(err)
}
