package gateway

import (
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/fencegate/fencegate/gateway/wire"
	"github.com/fencegate/fencegate/storage"
)

// commit is POST /v1/commits.
func (g *Gateway) commit(c echo.Context) error {
	if _, err := query(c); err != nil {
		return err
	}
	var m wire.Commit
	if err := g.message(c, &m); err != nil {
		return err
	}
	com, err := fromWire(m)
	if err != nil {
		return err
	}
	ctx, cancel := g.context(c, 0)
	defer cancel()
	res, err := g.o.Store.Commit(ctx, com)
	if err != nil {
		return err
	}
	if len(com.Tokens) == 1 {
		mark(c, com.Tokens[0].Number)
	}
	return reply(c, http.StatusOK, wire.FromResult(com.Ops, res))
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
