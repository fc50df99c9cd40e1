package http

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/url"

	"golang.org/x/sync/errgroup"

	"github.com/fencegate/fencegate/gateway/wire"
	"github.com/fencegate/fencegate/internal/bench/rig"
)

// load is so many clients of one server, with a connection each.
type load []*conn

func dialAll(ctx context.Context, h *rig.Host, addr string, n int) (load, error) {
	l := make(load, n)
	for i := range l {
		c, err := dial(ctx, addr)
		if err != nil {
			return nil, err
		}
		h.Cleanup(c.close)
		l[i] = c
	}
	return l, nil
}

// same is a contender's Op that sends always the same.
func (l load) same(request []byte) func(context.Context, int) error {
	return func(_ context.Context, worker int) error { return l[worker].roundTrip(request) }
}

// The headers that requests share. The key may do everything.
const (
	authorization = "Authorization: Bearer " // and a key
	tokenHeader   = wire.HeaderToken + ": "
	jsonBody      = "Content-Type: application/json"
)

// path returns the one of a resource, or of what is below it.
func path(resource, below string) string {
	return "/v1/resources/" + url.PathEscape(resource) + below
}

const valueSize = 100 // bytes of what is written

// token takes a lock and keeps it as long as locks may last.
func (c *conn) token(key, resource string) (string, error) {
	if err := c.roundTrip(request("POST", path(resource, "/lock"), `{"ttl":"1h"}`, authorization+key, jsonBody)); err != nil {
		return "", err
	}
	return c.member("token")
}

// nth is the name of a resource.
func nth(i int) string { return fmt.Sprintf("bench:%d", i) }

// puts are fenced writes to resources, one request each, ready but for the value.
type puts [][]byte

// preparePuts takes the locks of so many resources.
func (l load) preparePuts(ctx context.Context, key string, resources int) (puts, error) {
	p := make(puts, resources)
	g, ctx := errgroup.WithContext(ctx)
	for w, c := range l {
		g.Go(func() error {
			for i := w; i < resources && ctx.Err() == nil; i += len(l) {
				name := nth(i)
				token, err := c.token(key, name)
				if err != nil {
					return err
				}
				p[i] = request("PUT", path(name, "/records/value"), string(make([]byte, valueSize)), authorization+key, tokenHeader+token)
			}
			return ctx.Err()
		})
	}
	return p, g.Wait()
}

// put is a contender's Op that writes a new value to one of the resources: so nobody finds that
// it is there already.
func (l load) put(p puts, pick func(worker int) int) func(context.Context, int) error {
	buffers := make([][]byte, len(l))
	random := make([]*rand.ChaCha8, len(l))
	for i := range random {
		random[i] = rand.NewChaCha8([32]byte{byte(i)})
	}
	return func(_ context.Context, worker int) error {
		buffers[worker] = append(buffers[worker][:0], p[pick(worker)]...)
		b := buffers[worker]
		_, _ = random[worker].Read(b[len(b)-valueSize:]) // it never fails
		return l[worker].roundTrip(b)
	}
}
