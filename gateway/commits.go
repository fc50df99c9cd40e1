package gateway

import (
	"errors"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/gateway/apikey"
	"github.com/fencegate/fencegate/gateway/wire"
	"github.com/fencegate/fencegate/storage"
)

// commit is POST /v1/commits.
func (g *Gateway) commit(c echo.Context) error {
	if _, err := query(c); err != nil {
		return err
	}
	var m wire.Commit
	if err := g.messageUpTo(c, g.o.MaxBody, &m); err != nil {
		return err
	}
	if err := g.allowCommit(c, m); err != nil {
		return err
	}
	if m.Lock != nil {
		m.Lock.Label = hidden(m.Lock.Label, max(maxLabel, len(m.Lock.Label)))
		return g.commitAlone(c, m)
	}
	com, err := fromWire(m)
	if err != nil {
		return err
	}
	if com.Key, err = idempotencyKey(c); err != nil {
		return err
	}
	ctx, cancel := g.context(c, 0)
	defer cancel()
	res, err := g.o.Store.Commit(ctx, com)
	if err != nil {
		return err
	}
	if len(com.Tokens) == 1 && !res.Replayed {
		mark(c, com.Tokens[0].Number)
	}
	replayed(c, res)
	return reply(c, http.StatusOK, wire.FromResult(com.Ops, res))
}

// allowCommit asks for every resource of a commit, also those of operations without a token: an
// answer that is on record under an idempotency key is nobody else's to see.
func (g *Gateway) allowCommit(c echo.Context, m wire.Commit) error {
	if m.Lock != nil {
		if err := g.allowScope(c, apikey.Lock); err != nil {
			return err
		}
	}
	for _, t := range m.Tokens {
		if err := g.allow(c, t.Resource); err != nil {
			return err
		}
	}
	for _, o := range m.Ops {
		if err := g.allow(c, o.Resource); err != nil {
			return err
		}
	}
	return nil
}

// idempotencyKey reads the request's key; empty if it has none. One that does not fit is refused
// here: an empty one must not be taken for none.
func idempotencyKey(c echo.Context) (string, error) {
	key, sent, err := header(c, wire.HeaderKey)
	if err != nil || !sent {
		return "", err
	}
	if inner, ok := strings.CutPrefix(key, `"`); ok {
		if inner, ok = strings.CutSuffix(inner, `"`); ok {
			key = inner
		}
	}
	if err := fencing.ValidateKey(key); err != nil {
		return "", &fencing.InvalidError{What: wire.HeaderKey, Allowed: "a key of the grammar of record keys, such as a UUID"}
	}
	return key, nil
}

// replayed says in a header that a commit was answered from the record of its key. The token
// of this request need not be the mark then.
func replayed(c echo.Context, res storage.Result) {
	if res.Replayed {
		c.Response().Header().Set(wire.HeaderReplayed, "true")
	}
}

// fromWire reads a commit. That each operation has its token is the store's rule too;
// here a missing one is told apart from a wrong one.
func fromWire(m wire.Commit) (storage.Commit, error) {
	tokens, err := wire.ParseTokens(m.Tokens)
	if err != nil {
		return storage.Commit{}, err
	}
	have := make(map[string]bool, len(tokens))
	for _, t := range tokens {
		have[t.Resource] = true
	}
	com := storage.Commit{Tokens: tokens, Ops: make([]storage.Op, len(m.Ops))}
	missing := -1
	for i, o := range m.Ops {
		if com.Ops[i], err = o.Op(); err != nil {
			return storage.Commit{}, err
		}
		if err := validateID(o.Resource, o.Key); err != nil {
			return storage.Commit{}, err
		}
		if missing < 0 && !have[o.Resource] {
			missing = i
		}
	}
	if missing >= 0 {
		return storage.Commit{}, wire.TokenRequired(com.Ops[missing].Resource, missing)
	}
	return com, nil
}

func isNotFound(err error) bool { return errors.Is(err, storage.ErrNotFound) }
