package redisstore

import (
	"context"

	"github.com/fencegate/fencegate/internal/redisx"
	"github.com/fencegate/fencegate/storage"
)

// Together is a backend that carries out the commits of each Apply by one run of commits.lua, in
// their order, as they are where they happen to be on their way at once.
type Together struct{ *Backend }

// Apply implements storage.Backend.
func (b Together) Apply(ctx context.Context, batch []storage.Commit) []storage.Outcome {
	out := make([]storage.Outcome, len(batch))
	var all redisx.Call
	var sent []int
	for i, c := range batch {
		call, err := b.encode(c)
		if err != nil {
			out[i].Err = err
			continue
		}
		all.Keys = append(all.Keys, call.Keys...)
		all.Args = together.Encode(all.Args, call)
		sent = append(sent, i)
	}
	if len(sent) == 0 {
		return out
	}
	answers, err := together.Script.Run(ctx, b.client, all)
	for k, i := range sent {
		reply := redisx.Reply{Err: err}
		if err == nil {
			reply = together.Decode(answers[k])
		}
		out[i] = outcome(batch[i], reply)
	}
	return out
}
