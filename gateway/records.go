package gateway

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/gateway/wire"
	"github.com/fencegate/fencegate/storage"
)

// getRecord is GET /v1/resources/{r}/records/{key}: a fenced read if a token is sent, a
// plain one if not.
func (g *Gateway) getRecord(c echo.Context) error {
	name, key, err := record(c)
	if err != nil {
		return err
	}
	if _, err := query(c); err != nil {
		return err
	}
	t, fenced, err := token(c, name)
	if err != nil {
		return err
	}
	ctx, cancel := g.context(c, 0)
	defer cancel()
	var rec storage.Record
	if fenced {
		rec, err = g.o.Store.GetFenced(ctx, t, key)
	} else {
		rec, err = g.o.Store.Get(ctx, name, key)
	}
	if fenced && (err == nil || isNotFound(err)) {
		mark(c, t.Number) // the read was answered, so the token is the mark
	}
	if err != nil {
		return err
	}
	if err := g.takeFirst(passOf(c), int64(len(rec.Value))); err != nil {
		return err
	}
	setETag(c, rec.Version)
	c.Response().Header().Set("Content-Length", strconv.Itoa(len(rec.Value)))
	return c.Blob(http.StatusOK, wire.TypeRecord, rec.Value)
}

const (
	// listPage is how many records one request returns at most.
	listPage = 100
	// listStep is how many records are read at once: the values of one step are in memory before
	// anybody knows how large they are.
	listStep = 8
	// listCost is how often a value is in memory while a list is sent: as it is, and twice in the
	// base64 of its JSON, by four bytes for three.
	listCost = 4
)

// listRecords is GET /v1/resources/{r}/records.
func (g *Gateway) listRecords(c echo.Context) error {
	name, err := resource(c)
	if err != nil {
		return err
	}
	q, err := query(c, "prefix", "after", "limit")
	if err != nil {
		return err
	}
	n, err := limit(q)
	if err != nil {
		return err
	}
	n = min(n, listPage)
	ctx, cancel := g.context(c, 0)
	defer cancel()
	if c.Request().Method == http.MethodHead { // nothing of the values is sent
		if _, err := g.o.Store.List(ctx, name, q.Get("prefix"), q.Get("after"), 1); err != nil {
			return err
		}
		c.Response().Header().Set("Content-Type", wire.TypeJSON)
		return c.NoContent(http.StatusOK)
	}
	out, err := g.page(ctx, passOf(c), name, q.Get("prefix"), q.Get("after"), n)
	if err != nil {
		return err
	}
	return reply(c, http.StatusOK, out)
}

// page reads up to n records after a key, in steps, until their values are enough for one reply.
func (g *Gateway) page(ctx context.Context, p *pass, name, prefix, after string, n int) (wire.RecordList, error) {
	most := int(min(int64(g.o.MaxReply), g.bodies.mostEach/listCost))
	out := wire.RecordList{Records: make([]wire.Record, 0, min(n, listStep))}
	for size := 0; len(out.Records) < n; {
		step := min(listStep, n-len(out.Records))
		list, err := g.o.Store.List(ctx, name, prefix, after, step)
		if err != nil {
			return out, err
		}
		for _, rec := range list {
			first := len(out.Records) == 0
			if size += len(rec.Value); !first && size > most {
				out.Next = after
				return out, nil
			}
			take := g.takeBody
			if first {
				take = g.takeFirst
			}
			if err := take(p, listCost*int64(len(rec.Value))); err != nil {
				return out, err
			}
			out.Records = append(out.Records, wire.Record{Key: rec.Key, Value: rec.Value, Version: wire.Int(rec.Version)})
			after = rec.Key
		}
		if len(list) < step {
			return out, nil
		}
	}
	out.Next = after
	return out, nil
}

// putRecord is PUT /v1/resources/{r}/records/{key}; the body is the value.
func (g *Gateway) putRecord(c echo.Context) error {
	return g.change(c, func(name, key string) (storage.Op, error) {
		value, err := g.body(c, g.o.MaxValue)
		return storage.Put(name, key, value), err
	})
}

// deleteRecord is DELETE /v1/resources/{r}/records/{key}.
func (g *Gateway) deleteRecord(c echo.Context) error {
	return g.change(c, func(name, key string) (storage.Op, error) {
		return storage.Delete(name, key), nil
	})
}

// change commits one operation on the path's record, and the request's preconditions.
func (g *Gateway) change(c echo.Context, op func(name, key string) (storage.Op, error)) error {
	name, key, err := record(c)
	if err != nil {
		return err
	}
	if _, err := query(c); err != nil {
		return err
	}
	t, err := mustToken(c, name)
	if err != nil {
		return err
	}
	ops, err := preconditions(c, name, key)
	if err != nil {
		return err
	}
	idempotency, err := idempotencyKey(c)
	if err != nil {
		return err
	}
	o, err := op(name, key)
	if err != nil {
		return err
	}
	ops = append(ops, o)
	ctx, cancel := g.context(c, 0)
	defer cancel()
	res, err := g.o.Store.Commit(ctx, storage.Commit{Tokens: []fencing.Token{t}, Ops: ops, Key: idempotency})
	if err != nil {
		return err
	}
	if !res.Replayed {
		mark(c, t.Number)
	}
	replayed(c, res)
	if v := res.Ops[len(ops)-1].Version; v > 0 {
		setETag(c, v)
	}
	return c.NoContent(http.StatusNoContent)
}

// preconditions reads If-Match: "7" (this version) and If-None-Match: * (no record).
// Other forms of them are refused: to ignore a condition would be to write without it.
func preconditions(c echo.Context, name, key string) ([]storage.Op, error) {
	match, hasMatch, err := header(c, "If-Match")
	if err != nil {
		return nil, err
	}
	none, hasNone, err := header(c, "If-None-Match")
	if err != nil {
		return nil, err
	}
	switch {
	case hasMatch && hasNone:
		return nil, &fencing.InvalidError{What: "If-Match", Allowed: "not together with If-None-Match"}
	case hasMatch:
		inner, opened := strings.CutPrefix(match, `"`)
		inner, closed := strings.CutSuffix(inner, `"`)
		version, err := fencing.ParseNumber(inner)
		if err != nil || !opened || !closed {
			return nil, &fencing.InvalidError{What: "If-Match", Allowed: `one version in quotes, such as "7"`}
		}
		return []storage.Op{storage.Require(name, key, version)}, nil
	case hasNone && none != "*":
		return nil, &fencing.InvalidError{What: "If-None-Match", Allowed: "*"}
	case hasNone:
		return []storage.Op{storage.Require(name, key, 0)}, nil
	}
	return nil, nil
}

func setETag(c echo.Context, version int64) {
	c.Response().Header().Set("Etag", `"`+strconv.FormatInt(version, 10)+`"`) // as net/http spells it, which saves it a copy
}
