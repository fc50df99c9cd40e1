package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/gateway/wire"
	"github.com/fencegate/fencegate/storage"
)

// Store is the gateway's store, with the surface of a [storage.Store]. It is safe for
// concurrent use.
type Store struct {
	c *Client
}

func recordsPath(resource string) string { return "/v1/resources/" + resource + "/records" }

func fencePath(resource string) string { return "/v1/resources/" + resource + "/fence" }

// Commit is [storage.Store.Commit]. With a key it may be sent several times, until it is
// answered. Without one it is carried out at most once, and repeated only after attempts that surely
// did nothing: after an unknown outcome, whoever knows what the commit means must look before it is
// sent again.
func (s *Store) Commit(ctx context.Context, c storage.Commit) (storage.Result, error) {
	for _, t := range c.Tokens {
		if err := t.Validate(); err != nil {
			return storage.Result{}, err
		}
	}
	body, err := commitBody(c)
	if err != nil {
		return storage.Result{}, err
	}
	body.Tokens = wire.FromTokens(c.Tokens)
	var m wire.CommitReply
	send := s.c.once
	if c.Key != "" {
		send = s.c.exact
	}
	a, err := send(ctx, call{
		method: http.MethodPost, path: "/v1/commits", body: body, idempotency: c.Key, want: http.StatusOK, into: &m,
	})
	if err != nil {
		return storage.Result{}, withToken(err, c.Tokens...)
	}
	return commitResult(c, a, m)
}

// commitBody is a commit without its tokens. Names and kinds are checked here too: JSON would bend
// what is not UTF-8.
func commitBody(c storage.Commit) (wire.Commit, error) {
	body := wire.Commit{Ops: make([]wire.Op, len(c.Ops))}
	if c.Key != "" {
		if err := fencing.ValidateKey(c.Key); err != nil {
			return body, fmt.Errorf("idempotency key: %w", err)
		}
	}
	for i, op := range c.Ops {
		if err := validateID(op.Resource, op.Key); err != nil {
			return body, err
		}
		body.Ops[i] = wire.FromOp(op)
		if _, err := body.Ops[i].Op(); err != nil {
			return body, err
		}
	}
	return body, nil
}

func commitResult(c storage.Commit, a answer, m wire.CommitReply) (storage.Result, error) {
	res, err := m.Result(len(c.Ops))
	res.Replayed = a.header.Get(wire.HeaderReplayed) == "true"
	return res, fencing.AsUnknown(err)
}

// Put is [storage.Store.Put]. It is carried out at most once, like a Commit without a key.
func (s *Store) Put(ctx context.Context, t fencing.Token, key string, value []byte) (version int64, err error) {
	if err := errors.Join(t.Validate(), fencing.ValidateKey(key)); err != nil {
		return 0, err
	}
	if value == nil {
		value = []byte{}
	}
	a, err := s.c.once(ctx, call{
		method: http.MethodPut, path: recordsPath(t.Resource) + "/" + key, token: &t, raw: value, want: http.StatusNoContent,
	})
	if err != nil {
		return 0, withToken(err, t)
	}
	version, err = etag(a.header)
	return version, fencing.AsUnknown(err)
}

// Get is [storage.Store.Get].
func (s *Store) Get(ctx context.Context, resource, key string) (storage.Record, error) {
	if err := validateID(resource, key); err != nil {
		return storage.Record{}, err
	}
	rec, _, err := s.get(ctx, call{read: true}, resource, key)
	return rec, err
}

// GetFenced is [storage.Store.GetFenced]. A lost reply is unknown: a classic store may have
// been raised.
func (s *Store) GetFenced(ctx context.Context, t fencing.Token, key string) (storage.Record, error) {
	if err := errors.Join(t.Validate(), fencing.ValidateKey(key)); err != nil {
		return storage.Record{}, err
	}
	rec, header, err := s.get(ctx, call{token: &t}, t.Resource, key)
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return rec, withToken(err, t)
	}
	if header.Get(wire.HeaderMark) != strconv.FormatInt(t.Number, 10) {
		return storage.Record{}, fencing.AsFailed(errors.New("the reply does not say that the read was fenced"))
	}
	return rec, err
}

func (s *Store) get(ctx context.Context, k call, resource, key string) (storage.Record, http.Header, error) {
	k.method, k.path, k.want = http.MethodGet, recordsPath(resource)+"/"+key, http.StatusOK
	a, err := s.c.exact(ctx, k)
	if err != nil {
		return storage.Record{}, a.header, err
	}
	version, err := etag(a.header)
	if err != nil {
		return storage.Record{}, a.header, fencing.AsFailed(err)
	}
	return storage.Record{Resource: resource, Key: key, Value: a.body, Version: version}, a.header, nil
}

// etag reads a record's version.
func etag(h http.Header) (int64, error) {
	version, err := fencing.ParseNumber(strings.Trim(h.Get("ETag"), `"`))
	if err != nil {
		return 0, errors.New("the reply has no version in its ETag")
	}
	return version, nil
}

// List is [storage.Store.List]. It is fetched in as many parts as the gateway likes, each
// of which is a plain read of its own.
func (s *Store) List(ctx context.Context, resource, prefix, after string, limit int) ([]storage.Record, error) {
	if err := fencing.ValidateResource(resource); err != nil {
		return nil, err
	}
	var out []storage.Record
	for {
		var m wire.RecordList
		_, err := s.c.exact(ctx, call{
			method: http.MethodGet, path: recordsPath(resource), query: page(prefix, after, limit-len(out)),
			read: true, want: http.StatusOK, into: &m,
		})
		if err != nil {
			return nil, err
		}
		for _, rec := range m.Records {
			out = append(out, storage.Record{Resource: resource, Key: rec.Key, Value: rec.Value, Version: int64(rec.Version)})
		}
		if m.Next == "" || len(out) >= limit {
			return out, nil
		}
		if m.Next <= after {
			return nil, fencing.AsFailed(errors.New("the gateway's list does not advance"))
		}
		after = m.Next
	}
}

// Mark is [storage.Store.Mark], without the grant id, which no gateway tells.
func (s *Store) Mark(ctx context.Context, resource string) (fencing.Mark, error) {
	if err := fencing.ValidateResource(resource); err != nil {
		return fencing.Mark{}, err
	}
	var m wire.Fence
	_, err := s.c.exact(ctx, call{method: http.MethodGet, path: fencePath(resource), read: true, want: http.StatusOK, into: &m})
	if err != nil {
		return fencing.Mark{}, err
	}
	return fencing.Mark{Number: int64(m.Number), Retired: m.Retired}, nil
}

// Raise is [storage.Store.Raise], for the tokens of outside lock services. A gateway with
// a strict store refuses it. It is carried out at most once.
func (s *Store) Raise(ctx context.Context, t fencing.Token) error {
	if err := t.Validate(); err != nil {
		return err
	}
	_, err := s.c.once(ctx, call{
		method: http.MethodPost, path: fencePath(t.Resource), want: http.StatusNoContent,
		body: wire.RaiseRequest{Raise: t.Text()},
	})
	return withToken(err, t)
}

func validateID(resource, key string) error {
	return errors.Join(fencing.ValidateResource(resource), fencing.ValidateKey(key))
}
