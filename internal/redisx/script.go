package redisx

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/fencing"
)

// Script is a Lua script that answers with an array of strings. A script that writes is
// never sent again after it may have run: see [once]. It must do all that can fail before
// its first write, so that an error reply says that nothing was written. What remains is a
// command that the user may not run: [Probe] looks for it beforehand, and a script that
// was stopped by it has the outcome unknown.
type Script struct {
	src   string
	sha   string
	reads bool
	joint *Joint // how several calls are one; nil: they are not
}

// NewScript joins parts, a common beginning and the script itself, to one script.
func NewScript(parts ...string) *Script {
	src := strings.Join(parts, "\n")
	sum := sha1.Sum([]byte(src)) // how Redis names a script
	return &Script{src: src, sha: hex.EncodeToString(sum[:])}
}

// NewReadScript is NewScript for a script that writes nothing: whatever goes wrong with
// it, nothing happened.
func NewReadScript(parts ...string) *Script {
	s := NewScript(parts...)
	s.reads = true
	return s
}

// Call is one run of a script: its keys, and its arguments as strings or bytes.
type Call struct {
	Keys []string
	Args []any
}

// Reply is what a call brought: the script's strings, or an error with its outcome.
type Reply struct {
	Values []string
	Err    error
}

// Run runs the script once.
func (s *Script) Run(ctx context.Context, c redis.UniversalClient, call Call) ([]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, fencing.AsFailed(err)
	}
	cmd := s.command(ctx, "evalsha", s.sha, call)
	_ = c.Process(ctx, cmd)
	if unknownScript(cmd.Err()) {
		cmd = s.command(ctx, "eval", s.src, call)
		_ = c.Process(ctx, cmd)
	}
	reload(ctx, c, cmd.Err())
	return s.reply(cmd)
}

// RunEach runs the script once for each call, in order and in one round trip, each with an
// answer of its own.
func (s *Script) RunEach(ctx context.Context, c redis.UniversalClient, calls []Call) []Reply {
	replies := make([]Reply, len(calls))
	if err := ctx.Err(); err != nil {
		for i := range replies {
			replies[i].Err = fencing.AsFailed(err)
		}
		return replies
	}
	if len(calls) == 1 {
		replies[0].Values, replies[0].Err = s.Run(ctx, c, calls[0])
		return replies
	}
	all := make([]int, len(calls))
	for i := range all {
		all[i] = i
	}
	var missed []int
	for i, cmd := range s.pipeline(ctx, c, "evalsha", s.sha, calls, all) {
		if unknownScript(cmd.Err()) {
			missed = append(missed, i)
			continue
		}
		replies[i].Values, replies[i].Err = s.reply(cmd)
	}
	for k, cmd := range s.pipeline(ctx, c, "eval", s.src, calls, missed) {
		replies[missed[k]].Values, replies[missed[k]].Err = s.reply(cmd)
	}
	return replies
}

func (s *Script) pipeline(ctx context.Context, c redis.UniversalClient, name, body string, calls []Call, which []int) []once {
	if len(which) == 0 {
		return nil
	}
	pipe := c.Pipeline()
	cmds := make([]once, len(which))
	for k, i := range which {
		cmds[k] = s.command(ctx, name, body, calls[i])
		_ = pipe.Process(ctx, cmds[k])
	}
	_, err := pipe.Exec(ctx) // the first one's; each command has its own
	reload(ctx, c, err)
	return cmds
}

func (s *Script) command(ctx context.Context, name, body string, call Call) once {
	args := make([]any, 0, 3+len(call.Keys)+len(call.Args))
	args = append(args, name, body, len(call.Keys))
	for _, key := range call.Keys {
		args = append(args, key)
	}
	return once{redis.NewCmd(ctx, append(args, call.Args...)...)}
}

func (s *Script) reply(cmd once) ([]string, error) {
	values, err := cmd.StringSlice()
	if err == nil && len(values) == 0 {
		err = errors.New("the script answered nothing")
	}
	if err == nil {
		return values, nil
	}
	failed := s.reads || nothingHappened(err)
	err = fmt.Errorf("redis: %w", scrub(err))
	if failed {
		return nil, fencing.AsFailed(err)
	}
	return nil, fencing.AsUnknown(err)
}

// once is a command that the client does not send again after it may have reached the
// server. MaxRetries alone does not see to that: with MaxRetries -1 a cluster client
// still repeats a command whose reply was lost, up to MaxRedirects times.
type once struct{ *redis.Cmd }

// NoRetry implements redis.Cmder.
func (once) NoRetry() bool { return true }

func unknownScript(err error) bool { return redis.HasErrorPrefix(err, "NOSCRIPT") }
