package fault

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/internal/torture/history"
	"github.com/fencegate/fencegate/internal/torture/rig"
)

// clocks returns the faults of clocks: the wall clock of Redis, by which locks there run out, jumps.
func clocks() []Fault {
	const safe = "a lock that runs out early is granted again, and one that would last for hours is cut to its lease; " +
		"the store refuses the older of two holders, and what is stored stays"
	return []Fault{
		jump("clock-forward", "the clock of a Redis jumps an hour ahead, and back when it heals", safe, func(*rand.Rand) time.Duration { return time.Hour }),
		jump("clock-back", "the clock of a Redis jumps two hours back, and ahead when it heals", safe, func(*rand.Rand) time.Duration { return -2 * time.Hour }),
		jump("clock-step-small", "the clock of a Redis jumps by up to 2 s ahead or back, more than a lease lasts, and is right when it heals", safe, func(rnd *rand.Rand) time.Duration {
			d := time.Second + time.Duration(rnd.Int64N(int64(time.Second)))
			if rnd.IntN(2) == 0 {
				return -d
			}
			return d
		}),
	}
}

func jump(name, what, expect string, by func(*rand.Rand) time.Duration) Fault {
	return Fault{
		Name: name, What: what, Expect: expect,
		Loses: []history.Loss{history.LosesLocks},
		Own:   true,
		Fits:  func(s rig.Spec) bool { return inRedis(s) || withRedlock(s) },
		// After an error the servers start without the library, and Inject says why.
		Prepare: func(s *rig.Spec) { _ = prepareClocks(s) },
		Hold:    wireHold,
		Inject: func(ctx context.Context, r *rig.Rig, rnd *rand.Rand, note *history.Fault) (healing, error) {
			table, err := clocksOf(r.Spec)
			if err != nil {
				return nil, err
			}
			name, server, lock := ticking(r, rnd)
			if !lock {
				note.Loses = []history.Loss{}
			}
			pid, err := pidOf(ctx, server)
			if err != nil {
				return nil, err
			}
			d := by(rnd)
			note.Detail = fmt.Sprintf("%s by %v", name, d.Round(time.Millisecond))
			back := func(context.Context) error { return table.set(pid, 0) }
			if err := table.set(pid, d); err != nil {
				return back, err
			}
			return back, jumped(ctx, server, d)
		},
	}
}

// ticking chooses a Redis, and says whether locks are in it.
func ticking(r *rig.Rig, rnd *rand.Rand) (name string, server *testenv.Redis, lock bool) {
	n := len(r.LockRedis)
	if i := rnd.IntN(n + 1); i < n {
		return lockLinks(r.Spec)[i], r.LockRedis[i], true
	} else if r.StoreRedis == nil {
		i = rnd.IntN(n)
		return lockLinks(r.Spec)[i], r.LockRedis[i], true
	}
	return storeLinks(r.Spec)[0], r.StoreRedis, n > 0 && r.LockRedis[0] == r.StoreRedis
}

// jumped waits until the clock of a server has jumped by d. A *VoidError says that it does not.
func jumped(ctx context.Context, server *testenv.Redis, d time.Duration) error {
	c := redis.NewClient(&redis.Options{Addr: server.Addr(), MaxRetries: -1, PoolSize: 1})
	defer c.Close()
	var answered bool
	err := until(ctx, 3*time.Second, "the clock jumps", func() (bool, error) {
		sent := time.Now()
		at, err := c.Time(ctx).Result()
		if err != nil {
			return false, err
		}
		answered = true
		// It is off by something between at minus now and at minus sent: on a busy machine these are far apart.
		if d > 0 {
			return time.Until(at) > d/2, nil
		}
		return at.Sub(sent) < d/2, nil
	})
	if err != nil && answered && ctx.Err() == nil {
		return Void("the server's clock does not jump: the library that is to be loaded before all others does not work there")
	}
	return err
}

// pidOf asks a server for its process id.
func pidOf(ctx context.Context, server *testenv.Redis) (int, error) {
	c := redis.NewClient(&redis.Options{Addr: server.Addr(), MaxRetries: -1, PoolSize: 1})
	defer c.Close()
	info, err := c.Info(ctx, "server").Result()
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(info, "process_id:")
	var pid int
	if _, err := fmt.Sscan(rest, &pid); err != nil {
		return 0, errors.Join(errors.New("the server does not say its process id"), err)
	}
	return pid, nil
}
