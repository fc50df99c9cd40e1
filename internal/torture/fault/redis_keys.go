package fault

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/internal/torture/history"
	"github.com/fencegate/fencegate/internal/torture/rig"
)

// flushAll fits a store, too, although a flush shows as no new incarnation: the run id stays. What rule 11 of
// the design fears of such losses is an older mark that comes back. A flush brings none back: an absent mark is
// {0, retired}, the store is strict, so every token of before is refused as never granted until somebody raises
// a new one, and then for its number or its grant. What is lost is the data, and that is told.
// Evicting all marks afterwards would find none.
func flushAll() Fault {
	return Fault{
		Name: "redis-flushall",
		What: "FLUSHALL, while Redis runs on",
		Expect: "a lock begins at 1 again and is healed by the store; a store has no mark any more and so refuses " +
			"every token of before, and a new era begins with nothing in it",
		Loses: losesRedis, Destroys: true, Fits: inRedis, Hold: 200 * time.Millisecond,
		Inject: func(ctx context.Context, r *rig.Rig, rnd *rand.Rand, note *history.Fault) (healing, error) {
			s := aRedis(r, rnd)
			note.Detail, note.Loses = s.name(), s.loses(history.LosesLocks, history.LosesData)
			return none, s.ask(func(c *redis.Client) error { return c.FlushAll(ctx).Err() })
		},
	}
}

// evictKeys removes the keys of one kind, of all locks of the run.
func evictKeys(name, kind string, loses []history.Loss, what, expect string) Fault {
	return Fault{
		Name: name, What: what, Expect: expect, Loses: loses, Fits: lockInRedis, Hold: 200 * time.Millisecond,
		Inject: func(ctx context.Context, r *rig.Rig, _ *rand.Rand, note *history.Fault) (healing, error) {
			s := redisServers(r)[0]
			n := 0
			err := s.ask(func(c *redis.Client) error {
				for end := time.Now().Add(2 * time.Second); ; wait(ctx, 5*time.Millisecond) {
					more, err := deleteKeys(ctx, c, r.Spec.Client.Prefix, kind)
					n += more
					if n > 0 || err != nil || time.Now().After(end) {
						return err
					}
				}
			})
			note.Detail = fmt.Sprintf("%d keys", n)
			return none, cmp.Or(err, atLeastOne(ctx, n, "there was no %s to be evicted", kind))
		},
	}
}

// deleteKeys removes the keys "<anything>:{<prefix>...}:<kind>" a few at a time.
func deleteKeys(ctx context.Context, c *redis.Client, prefix, kind string) (n int, err error) {
	escape := strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`)
	match := "*:{" + escape.Replace(prefix) + "*}:" + kind
	for cursor := uint64(0); ; {
		keys, next, err := c.Scan(ctx, cursor, match, 1000).Result()
		if err != nil {
			return n, err
		}
		if len(keys) > 0 {
			gone, err := c.Del(ctx, keys...).Result()
			if err != nil {
				return n, err
			}
			n += int(gone)
		}
		if cursor = next; cursor == 0 {
			return n, nil
		}
	}
}
