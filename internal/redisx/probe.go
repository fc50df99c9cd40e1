package redisx

import (
	"context"
	_ "embed"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/fencing"
)

//go:embed probe.lua
var probeLua string

var probe = NewScript(probeLua)

// ProbeResource is named in the keys of a probe. It is outside the grammar of a resource,
// so a probe touches nobody's keys.
const ProbeResource = "-probe"

// Probe runs the commands in one script on keys of their own, and refuses a server that
// forbids one of them (ACL, rename-command): a script that is stopped between two writes
// is half done. A command that removes has to stand before the one that creates, and
// after it once more: so nothing is left behind, whichever is refused. Of a cluster one
// server is asked. The refusal is a [*fencing.InvalidError].
func Probe(ctx context.Context, c redis.UniversalClient, keys []string, commands [][]string) error {
	call := Call{Keys: keys}
	var names []string
	for _, words := range commands {
		names = append(names, words[0])
		call.Args = append(call.Args, strconv.Itoa(len(words)))
		for _, word := range words {
			call.Args = append(call.Args, word)
		}
	}
	slices.Sort(names)
	want := strings.Join(slices.Compact(names), ", ") + " in scripts, on all keys of the prefix"
	reply, err := probe.Run(ctx, c, call)
	switch {
	case redis.HasErrorPrefix(err, "NOPERM"): // EVALSHA itself, or the keys
		return forbidden("scripts", err.Error(), want)
	case err != nil || reply[0] == "ok":
		return err
	}
	return forbidden(reply[1]+" in scripts", reply[len(reply)-1], want)
}

func forbidden(what, reason, want string) error {
	return &fencing.InvalidError{
		What: "Redis user", Got: "that may not run " + what + " (" + reason + ")", Allowed: "one who may run " + want,
	}
}
