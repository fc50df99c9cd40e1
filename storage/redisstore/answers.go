package redisstore

import (
	"encoding/hex"
	"errors"
	"slices"
	"strings"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/redisx"
	"github.com/fencegate/fencegate/storage"
)

// encodeKey adds the idempotency key of a commit to its call.
func (b *Backend) encodeKey(call *redisx.Call, c storage.Commit, id storage.RecordID) {
	lowest := slices.IndexFunc(c.Tokens, func(t fencing.Token) bool { return t.Resource == id.Resource })
	fingerprint := c.Fingerprint()
	call.Keys = append(call.Keys, b.answers(id.Resource))
	call.Args = append(call.Args, id.Key, hex.EncodeToString(fingerprint[:]),
		decimal(b.retention.Milliseconds()), decimal(c.Tokens[lowest].Number))
}

// recall answers a commit by what its key was answered: {'again', the answer as carry.lua
// keeps it, "<fingerprint> ok <version> <sum> ..." or "<fingerprint> data ..."}.
func recall(c storage.Commit, reply []string) (storage.Result, error) {
	if len(reply) != 2 {
		return storage.Result{}, strange(reply)
	}
	words := strings.Split(reply[1], " ")
	var a storage.Answer
	fingerprint, err := hex.DecodeString(words[0])
	if err != nil || len(fingerprint) != len(a.Fingerprint) || len(words) < 2 || words[1] != "ok" && words[1] != "data" {
		return storage.Result{}, strange(reply)
	}
	a.Fingerprint = storage.Fingerprint(fingerprint)
	// The words of another commit cannot be read: they are about its operations.
	if a.Fingerprint == c.Fingerprint() {
		a.Result, err = decode(c, words[1:])
		if err != nil && !errors.As(err, &a.Refused) {
			return storage.Result{}, err
		}
	}
	res, _, err := storage.Evaluate(c, storage.View{Answer: &a})
	return res, err
}
