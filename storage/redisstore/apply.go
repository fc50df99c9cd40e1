package redisstore

import (
	"context"
	"errors"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/redisx"
	"github.com/fencegate/fencegate/storage"
)

// Apply implements storage.Backend. One commit by itself is a script, or shares one with others
// of this process that are on their way at once; those of a batch are a script each, in a
// pipeline of their own, in their order.
func (b *Backend) Apply(ctx context.Context, batch []storage.Commit) []storage.Outcome {
	out := make([]storage.Outcome, len(batch))
	calls := make([]redisx.Call, 0, len(batch))
	sent := make([]int, 0, len(batch)) // the commit of each call
	for i, c := range batch {
		call, err := b.encode(c)
		if err != nil {
			out[i].Err = err
			continue
		}
		calls, sent = append(calls, call), append(sent, i)
	}
	for k, reply := range b.runEach(ctx, calls) {
		out[sent[k]] = outcome(batch[sent[k]], reply)
	}
	return out
}

// outcome reads the reply to a commit.
func outcome(c storage.Commit, reply redisx.Reply) (out storage.Outcome) {
	if reply.Err != nil {
		return storage.Outcome{Err: explain(reply.Err, c)}
	}
	out.Result, out.Err = decode(c, reply.Values)
	return out
}

func (b *Backend) runEach(ctx context.Context, calls []redisx.Call) []redisx.Reply {
	if len(calls) != 1 {
		return commit.RunEach(ctx, b.client, calls)
	}
	values, err := b.sender.Run(ctx, commit, calls[0])
	return []redisx.Reply{{Values: values, Err: err}}
}

// encode writes a commit down as commit.lua reads it.
func (b *Backend) encode(c storage.Commit) (redisx.Call, error) {
	call := redisx.Call{
		Keys: make([]string, 0, 2*len(c.Tokens)+1),
		Args: make([]any, 0, 5+2*len(c.Tokens)+5*len(c.Ops)),
	}
	position := make(map[string]string, len(c.Tokens))
	call.Args = append(call.Args, strconv.Itoa(len(c.Tokens)))
	for i, t := range c.Tokens {
		position[t.Resource] = strconv.Itoa(i + 1)
		call.Keys = append(call.Keys, b.mark(t.Resource), b.records(t.Resource))
		call.Args = append(call.Args, decimal(t.Number), t.Grant)
	}
	if id, ok := c.KeyID(); ok {
		b.encodeKey(&call, c, id)
	}
	for _, op := range c.Ops {
		of, ok := position[op.Resource]
		if !ok {
			return redisx.Call{}, &fencing.InvalidError{What: "commit", Allowed: "a token for " + op.Resource}
		}
		call.Args = append(call.Args, string(op.Kind), of, op.Key)
		switch op.Kind {
		case storage.KindPut:
			call.Args = append(call.Args, op.Value)
		case storage.KindAdd:
			call.Args = append(call.Args, decimal(op.Delta), decimal(op.Min))
		case storage.KindRequire:
			call.Args = append(call.Args, decimal(op.Version))
		case storage.KindDelete:
		default:
			return redisx.Call{}, &fencing.InvalidError{What: "operation", Allowed: "put, delete, add or require"}
		}
	}
	return call, nil
}

// decode reads commit.lua's answer.
func decode(c storage.Commit, reply []string) (storage.Result, error) {
	switch reply[0] {
	case "again":
		return recall(c, reply)
	case "stale":
		return storage.Result{}, stale(c.Tokens, reply)
	case "data":
		return storage.Result{}, refused(c, reply)
	}
	if reply[0] != "ok" || len(reply) != 1+2*len(c.Ops) {
		return storage.Result{}, strange(reply)
	}
	res := storage.Result{Ops: make([]storage.OpResult, len(c.Ops))}
	for i := range c.Ops {
		version, err1 := strconv.ParseInt(reply[1+2*i], 10, 64)
		sum, err2 := strconv.ParseInt(reply[2+2*i], 10, 64)
		if err1 != nil || err2 != nil {
			return storage.Result{}, strange(reply)
		}
		res.Ops[i] = storage.OpResult{Version: version, Counter: sum}
	}
	return res, nil
}

var reasons = map[string]error{
	"version": storage.ErrVersionMismatch,
	"minimum": storage.ErrBelowMinimum,
	"counter": storage.ErrNotCounter,
	"range":   storage.ErrCounterRange,
}

// refused reads {'data', index of the operation, reason, have, want}.
func refused(c storage.Commit, reply []string) error {
	if len(reply) != 5 {
		return strange(reply)
	}
	i, err1 := strconv.Atoi(reply[1])
	have, err2 := strconv.ParseInt(reply[3], 10, 64)
	want, err3 := strconv.ParseInt(reply[4], 10, 64)
	reason, ok := reasons[reply[2]]
	if errors.Join(err1, err2, err3) != nil || !ok || i < 0 || i >= len(c.Ops) {
		return strange(reply)
	}
	op := c.Ops[i]
	return &storage.RefusedError{Op: i, Resource: op.Resource, Key: op.Key, Reason: reason, Have: have, Want: want}
}

// explain says what a cluster means when it refuses a commit over several slots: trying
// again does not help.
func explain(err error, c storage.Commit) error {
	spread := len(c.Tokens) > 1 && slices.ContainsFunc([]string{"CROSSSLOT", "ERR Script attempted to access keys that do not hash to the same slot"},
		func(begin string) bool { return redis.HasErrorPrefix(err, begin) })
	if !spread {
		return err
	}
	return &fencing.InvalidError{
		What:    "commit",
		Allowed: "resources of one hash slot: this Redis is a cluster, and these are in different ones",
	}
}
