package redislock

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/redisx"
	"github.com/fencegate/fencegate/locking"
)

// Status implements locking.Backend. Waiters are places in line, one per process as a rule;
// one whose process died counts until it is skipped.
func (b *Backend) Status(ctx context.Context, resource string) (locking.Status, error) {
	if err := fencing.ValidateResource(resource); err != nil {
		return locking.Status{}, err
	}
	reply, err := status.Run(ctx, b.client, redisx.Call{Keys: b.keys(resource)[:3]})
	if err != nil {
		return locking.Status{}, err
	}
	return parseStatus(resource, reply)
}

func parseStatus(resource string, reply []string) (locking.Status, error) {
	if len(reply) != 5 {
		return locking.Status{}, strange(reply[0])
	}
	number, left, err := numberAndTime(reply[0], reply[3])
	if err != nil {
		return locking.Status{}, err
	}
	waiters, err := strconv.Atoi(reply[4])
	if err != nil {
		return locking.Status{}, strange(reply[4])
	}
	return locking.Status{
		Resource: resource, Number: number, Held: reply[1] == "1", Label: reply[2], Remaining: left, Waiters: waiters,
	}, nil
}

// List implements locking.Backend. It goes through all keys of the server, and reads the
// locks one by one: holds that begin or end meanwhile may be missing.
func (b *Backend) List(ctx context.Context, prefix, after string, limit int) ([]locking.Status, error) {
	names, err := b.held(ctx, prefix, after)
	if err != nil {
		return nil, err
	}
	var list []locking.Status
	for len(names) > 0 && len(list) < limit {
		part := names[:min(len(names), limit-len(list))]
		names = names[len(part):]
		calls := make([]redisx.Call, len(part))
		for i, name := range part {
			calls[i].Keys = b.keys(name)[:3]
		}
		for i, reply := range status.RunEach(ctx, b.client, calls) {
			if reply.Err != nil {
				return nil, reply.Err
			}
			st, err := parseStatus(part[i], reply.Values)
			if err != nil {
				return nil, err
			}
			if st.Held {
				list = append(list, st)
			}
		}
	}
	return list, nil
}

// held returns the names of the locks that begin with prefix and come after the name
// after, sorted.
func (b *Backend) held(ctx context.Context, prefix, after string) ([]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, fencing.AsFailed(err)
	}
	pattern := redisx.Key(b.prefix, escapeGlob(prefix)+"*", "lock")
	begin, end, _ := strings.Cut(redisx.Key(b.prefix, "*", "lock"), "*")
	var mu sync.Mutex // guards names: a cluster client asks its masters concurrently
	var names []string
	scan := func(ctx context.Context, c redis.Cmdable) error {
		for cursor := uint64(0); ; {
			keys, next, err := c.Scan(ctx, cursor, pattern, 1000).Result()
			if err != nil {
				return err
			}
			mu.Lock()
			for _, key := range keys {
				name := strings.TrimSuffix(strings.TrimPrefix(key, begin), end)
				if strings.HasPrefix(name, prefix) && name > after && fencing.ValidateResource(name) == nil {
					names = append(names, name)
				}
			}
			mu.Unlock()
			if cursor = next; cursor == 0 {
				return nil
			}
		}
	}
	var err error
	if c, ok := b.client.(*redis.ClusterClient); ok {
		err = c.ForEachMaster(ctx, func(ctx context.Context, c *redis.Client) error { return scan(ctx, c) })
	} else {
		err = scan(ctx, b.client)
	}
	if err != nil {
		return nil, fencing.AsFailed(fmt.Errorf("redis: %w", err))
	}
	slices.Sort(names)
	return slices.Compact(names), nil // SCAN may return a key twice
}

// escapeGlob makes a text match itself in a pattern of SCAN.
func escapeGlob(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(s)
}
