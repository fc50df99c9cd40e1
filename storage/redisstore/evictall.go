package redisstore

import (
	"context"
	_ "embed"
	"fmt"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/redisx"
	"github.com/fencegate/fencegate/storage"
)

//go:embed evictall.lua
var evictAllLua string

var evictOne = redisx.NewScript(ruleLua, evictAllLua)

// scanned is about how many keys of the server one step looks at.
const scanned = 1000

var _ storage.AllEvicter = (*Backend)(nil)

// EvictAll implements storage.AllEvicter. Over a cluster it needs a cluster's client: one of a
// single node sees a part of the marks, and is refused. It goes through all keys of the server, of a
// cluster through those of every master, and retires each mark by a script of its own. A slot
// of a cluster that moves meanwhile, and a failover, end the tokens they concern by
// themselves.
func (b *Backend) EvictAll(ctx context.Context, progress func(evicted int)) (evicted int, err error) {
	var mu sync.Mutex // guards evicted, and orders the calls of progress: masters are gone through concurrently
	add := func(n int) {
		mu.Lock()
		defer mu.Unlock()
		evicted += n
		if progress != nil {
			progress(evicted)
		}
	}
	switch c := b.client.(type) {
	case *redis.ClusterClient:
		err = c.ForEachMaster(ctx, func(ctx context.Context, one *redis.Client) error { return b.evictOn(ctx, one, add) })
	default:
		if err = b.wholeServer(ctx, c); err == nil {
			err = b.evictOn(ctx, c, add)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if evicted > 0 {
		return evicted, fencing.AsPartial(err)
	}
	return 0, fencing.AsFailed(err) // an error without an outcome is a cluster client's that found no masters
}

// wholeServer refuses a node of a cluster: others would keep their marks, and nobody would know.
func (b *Backend) wholeServer(ctx context.Context, server redis.Cmdable) error {
	info, err := server.Info(ctx, "cluster").Result()
	if err != nil {
		return fencing.AsFailed(fmt.Errorf("redis: info: %w", err))
	}
	if strings.Contains(info, "cluster_enabled:1") {
		return &fencing.InvalidError{What: "Redis client", Got: "that of one node of a cluster", Allowed: "a cluster client, which reaches all marks"}
	}
	return nil
}

// evictOn retires the marks on one server, and calls add with the number of each step.
func (b *Backend) evictOn(ctx context.Context, server redis.Cmdable, add func(int)) error {
	const kind = "mark"
	begin, end, _ := strings.Cut(redisx.Key(b.prefix, "*", kind), "*")
	for cursor := uint64(0); ; {
		if err := ctx.Err(); err != nil {
			return fencing.AsFailed(err)
		}
		keys, next, err := server.Scan(ctx, cursor, begin+"*"+end, scanned).Result()
		if err != nil {
			return fencing.AsFailed(fmt.Errorf("redis: scan: %w", err))
		}
		var calls []redisx.Call
		for _, key := range keys {
			if resource := strings.TrimSuffix(strings.TrimPrefix(key, begin), end); fencing.ValidateResource(resource) == nil {
				calls = append(calls, redisx.Call{Keys: []string{key, b.answers(resource)}})
			}
		}
		n, err := b.evictKeys(ctx, calls)
		add(n)
		if err != nil {
			return err
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

// evictKeys retires marks in one round trip. After an error, those that were retired count.
func (b *Backend) evictKeys(ctx context.Context, calls []redisx.Call) (n int, err error) {
	if len(calls) == 0 {
		return 0, nil
	}
	for _, reply := range evictOne.RunEach(ctx, b.client, calls) {
		switch {
		case reply.Err != nil:
			if err == nil { // one stands for all
				err = reply.Err
			}
		case len(reply.Values) != 2 || reply.Values[0] != "ok":
			err = strange(reply.Values)
		case reply.Values[1] == "1":
			n++
		}
	}
	return n, err
}
