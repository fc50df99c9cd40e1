package redisstore

import (
	"errors"
	"strconv"
	"strings"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/redisx"
	"github.com/fencegate/fencegate/storage"
)

// together carries out commits that are on their way at once: commits.lua reads the incarnation
// once for all of them.
var together = redisx.Joint{
	Script: redisx.NewScript(ruleLua, carryLua, commitsLua),
	Encode: encodeNext,
	Decode: decodeNext,
}

// encodeNext writes a commit, as it is written for commit.lua, down for commits.lua.
func encodeNext(args []any, call redisx.Call) []any {
	if a := call.Args; len(call.Keys) == 2 && len(a) == 7 && a[3] == string(storage.KindPut) {
		return append(args, a[3], a[1], a[2], a[5], a[6])
	}
	args = append(args, strconv.Itoa(len(call.Keys)), strconv.Itoa(len(call.Args)))
	return append(args, call.Args...)
}

// decodeNext reads what commits.lua answers to a commit.
func decodeNext(answer string) redisx.Reply {
	kind, rest, _ := strings.Cut(answer, " ")
	switch kind {
	case "failed":
		return redisx.Reply{Err: fencing.AsFailed(errors.New("redis: " + rest))}
	case "unknown":
		return redisx.Reply{Err: fencing.AsUnknown(errors.New("redis: " + rest))}
	case "again":
		return redisx.Reply{Values: []string{kind, rest}}
	}
	return redisx.Reply{Values: strings.Split(answer, " ")}
}
