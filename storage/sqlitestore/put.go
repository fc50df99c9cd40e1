package sqlitestore

import (
	"strings"

	"github.com/fencegate/fencegate/storage"
)

// A commit of one Put, the most frequent one, is one statement: check and write. Where it is alone in
// its batch, it is a transaction of its own, like any UPDATE.

// guesses has the versions of records that were written last. They are only guesses: the statement
// that uses one asks whether it is true, so what they cost when they are wrong is time. Without
// one the statement must return the version, and SQLite makes a temporary table for what a
// statement returns, which costs as much as the rest of it.
type guesses map[storage.RecordID]*int64

// maxGuesses bounds the memory, to a few MB.
const maxGuesses = 1 << 14

// put keeps a version. A name is copied, once: it may be a piece of something large. (An assignment
// to the map would replace the copy.)
func (g guesses) put(id storage.RecordID, version int64) {
	if known := g[id]; known != nil {
		*known = version
		return
	}
	if len(g) >= maxGuesses {
		clear(g)
	}
	g[storage.RecordID{Resource: strings.Clone(id.Resource), Key: strings.Clone(id.Key)}] = &version
}

func isLonePut(c storage.Commit) bool {
	return c.Key == "" && len(c.Tokens) == 1 && len(c.Ops) == 1 && c.Ops[0].Kind == storage.KindPut &&
		c.Ops[0].Resource == c.Tokens[0].Resource
}

// lonePut carries out a commit of one Put. ok is false where nothing was written: the token is not the
// mark, or the guess was wrong.
func (t txn) lonePut(c storage.Commit) (res storage.Result, ok bool, err error) {
	if !t.alone {
		if err := t.ready(); err != nil {
			return res, false, err
		}
	}
	token, op := c.Tokens[0], c.Ops[0]
	id := op.ID()
	var version int64
	if guess := t.guesses[id]; guess != nil {
		n, err := t.putGuess.exec(notNull(op.Value), id.Resource, id.Key, *guess, token.Number, token.Grant, t.incarnation)
		if err != nil || n == 0 {
			return res, false, err
		}
		version = *guess + 1
	} else {
		values, err := t.putFenced.first(id.Resource, id.Key, notNull(op.Value), token.Number, token.Grant, t.incarnation)
		if err != nil || values == nil {
			return res, false, err
		}
		if err := (row{values: values}).Scan(&version); err != nil {
			return res, false, err
		}
	}
	t.guesses.put(id, version)
	return storage.Result{Ops: []storage.OpResult{{Version: version}}}, true, nil
}
