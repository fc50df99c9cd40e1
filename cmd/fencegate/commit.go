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

type commitCmd struct {
	File           string `placeholder:"FILE" default:"-" env:"FENCEGATE_COMMIT_FILE" help:"Where the commit is, - for standard input (default: ${default})."`
	IdempotencyKey string `placeholder:"KEY" env:"FENCEGATE_COMMIT_IDEMPOTENCY_KEY" help:"Makes it safe to send the commit again: it is applied at most once. Any name that is new for every commit, such as a UUID."`
	targetFlags
	outputFlag
}

// Help implements kong.HelpProvider.
func (commitCmd) Help() string {
	return "All of its operations are applied, or none. It is the JSON of POST /v1/commits, with a token for each resource that is touched, " +
		"or with lock in their place, to take the locks for this one commit:\n\n" +
		"  {\"lock\":{\"wait\":\"5s\"},\"ops\":[{\"kind\":\"add\",\"resource\":\"coupon:42\",\"key\":\"stock\",\"delta\":\"-1\",\"min\":\"0\"}]}\n\n" +
		"Kinds are put with value (in base64), delete, add with delta and perhaps min, require with version. " +
		"With neither tokens nor lock, FENCING_TOKEN and FENCING_RESOURCE are the token. What is printed has one result for each operation. " +
		exitHelp + targetHelp
}

// maxCommit is the largest commit that is read: MaxCommit bytes of values, in base64, and names.
const maxCommit = storage.MaxCommit/3*4 + 16<<20

// Run implements the command.
func (c *commitCmd) Run(ctx context.Context, k *kong.Context, std stdio) error {
	data, err := c.read(std.in)
	if err != nil {
		return err
	}
	var m wire.Commit
	if err := wire.Decode(data, &m); err != nil {
		return usageError{fmt.Errorf("the commit: %w", unread(err))}
	}
	com := storage.Commit{Ops: make([]storage.Op, len(m.Ops)), Key: c.IdempotencyKey}
	for i, op := range m.Ops {
		if com.Ops[i], err = op.Op(); err != nil {
			return usageError{fmt.Errorf("operation %d: %w", i, unread(err))}
		}
	}
	if com.Tokens, err = wire.ParseTokens(m.Tokens); err != nil {
		return usageError{unread(err)}
	}
	var a alone
	switch {
	case m.Lock != nil && len(m.Tokens) > 0:
		return usageError{errors.New("the commit has tokens and lock: which of the two?")}
	case m.Lock != nil:
		a = alone{wait: new(time.Duration), label: m.Lock.Label}
		if m.Lock.Wait != nil {
			*a.wait = time.Duration(*m.Lock.Wait)
		}
	case len(m.Tokens) == 0:
		text, resource := os.Getenv(envToken), os.Getenv(envResource)
		if text == "" || resource == "" {
			return usageError{errors.New("the commit has neither tokens nor lock, and FENCING_TOKEN and FENCING_RESOURCE are not set")}
		}
		t, err := fencing.ParseToken(resource, text)
		if err != nil {
			return usageError{err}
		}
		com.Tokens = []fencing.Token{t}
	}
	res, err := c.commit(ctx, k, std, com, a)
	if err != nil {
		return err
	}
	if c.Output == "json" {
		return writes.printed(writeJSON(std.out, wire.FromResult(com.Ops, res)))
	}
	for i, op := range com.Ops {
		if op.Kind == storage.KindAdd {
			_, err = fmt.Fprintf(std.out, "%s %s/%s: version %d, counter %d\n", op.Kind, op.Resource, op.Key, res.Ops[i].Version, res.Ops[i].Counter)
		} else {
			_, err = fmt.Fprintf(std.out, "%s %s/%s: version %d\n", op.Kind, op.Resource, op.Key, res.Ops[i].Version)
		}
		if err != nil {
			return writes.printed(err)
		}
	}
	return nil
}

// unread is an error of a message that was read here, and that no gateway has seen.
func unread(err error) error {
	if e, ok := errors.AsType[*wire.Error](err); ok && e.Problem.Detail != "" {
		return errors.New(e.Problem.Detail)
	}
	return err
}

func (c *commitCmd) read(stdin io.Reader) ([]byte, error) {
	if from := cmp.Or(c.File, "-"); from != "-" {
		file, err := os.Open(from)
		if err != nil {
			return nil, usageError{fmt.Errorf("--file: %w", err)}
		}
		defer func() { _ = file.Close() }()
		stdin = file
	}
	data, err := io.ReadAll(io.LimitReader(stdin, maxCommit+1))
	if err == nil && len(data) > maxCommit {
		err = usageError{&fencing.InvalidError{What: "commit", Allowed: fmt.Sprintf("at most %d MiB", maxCommit>>20)}}
	}
	return data, err
}
