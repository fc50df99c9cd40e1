package fault

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/fencegate/fencegate/internal/torture/history"
	"github.com/fencegate/fencegate/internal/torture/rig"
)

// losesRedis is the most that a Redis forgets: the lock's and the store's.
var losesRedis = []history.Loss{history.LosesLocks, history.LosesData}

func redisFaults() []Fault {
	return []Fault{
		{
			Name: "redis-kill",
			What: "Redis is killed (SIGKILL) and started again with its append-only file",
			Expect: "nothing is lost; the run id is another one, so as a store it ends all leases, and as a lock " +
				"it has the holds and numbers that it had",
			Own: true, Fits: inRedis, Hold: 400 * time.Millisecond, Inject: killRedis,
		},
		{
			Name:   "redis-pause",
			What:   "Redis is stopped (SIGSTOP) for longer than the leases last",
			Expect: "leases end by the clocks of their holders; calls that lie in its queue are judged by the rule when it goes on",
			Own:    true, Fits: inRedis, Hold: past, Inject: pauseRedis,
		},
		{
			Name: "redis-restart-empty",
			What: "Redis is started again without its data",
			Expect: "a lock begins at 1 again, is told by the store how high its numbers were, and goes on above them; " +
				"a store knows no token any more, refuses all of them, and begins a new era",
			Loses: losesRedis, Own: true, Destroys: true, Fits: inRedis, Hold: 200 * time.Millisecond, Inject: emptyRedis,
		},
		{
			Name: "redis-older-copy",
			What: "Redis is started again with a copy of its files from a moment ago",
			Expect: "a lock that grants numbers a second time is refused by the store, and goes on above its mark; a store " +
				"shows a new incarnation: no token of before is current again, although its mark may be",
			Loses: losesRedis, Own: true, Destroys: true, Fits: inRedis, Hold: 200 * time.Millisecond, Inject: olderRedis,
		},
		flushAll(),
		evictKeys("redis-evict-counters", "counter", []history.Loss{history.LosesLocks},
			"the counters of all locks are evicted, as maxmemory-policy allkeys-lru would",
			"numbers begin at 1 again; the stores refuse their raises, and the lock goes on above the marks"),
		evictKeys("redis-evict-locks", "lock", []history.Loss{history.LosesLocks},
			"the holds of all locks are evicted",
			"locks are granted while their holders still work; of two, the store serves the one with the higher number"),
		evictKeys("redis-evict-queues", "queue", nil,
			"the queues of all locks are evicted",
			"waiters find their places gone, and stand in line again"),
		failoverRedis(lagging),
		failoverRedis(inStep),
		{
			Name: "redis-clients-killed",
			What: "CLIENT KILL ends all connections to Redis again and again",
			Expect: "calls whose answers were lost are unknown, and are told so; subscriptions come back, and nobody " +
				"waits for longer than until his next look",
			Own: true, Fits: inRedis, Hold: time.Second, Inject: killRedisClients,
		},
		{
			Name:   "redis-oom",
			What:   "Redis has reached its maxmemory, and evicts nothing",
			Expect: "writes fail, and surely nothing of them happened; there is no hold without its number",
			Own:    true, Fits: inRedis, Hold: 700 * time.Millisecond, Inject: fillRedis,
		},
		{
			Name: "redis-readonly",
			What: "the primary is made a replica of nobody for a while, as a mistaken failover does, and a primary again",
			Expect: "writes fail (READONLY); afterwards it has another replication history, so as a store it ends all " +
				"leases, and nothing is lost",
			Own: true, Fits: inRedis, Hold: 700 * time.Millisecond, Inject: readonlyRedis,
		},
		{
			Name:   "redis-busy-script",
			What:   "somebody's script occupies Redis, which answers BUSY to everybody else, until it is killed",
			Expect: "calls fail, or are carried out late and are judged by the rule then",
			Own:    true, Fits: inRedis, Hold: 700 * time.Millisecond, Inject: occupyRedis,
		},
		slowSync("redis-slow-fsync", inRedis,
			func(s *rig.Spec) *[]string { return &s.RedisEnv },
			func(r *rig.Rig, rnd *rand.Rand) (string, string, bool) {
				s := aRedis(r, rnd)
				return "redis of " + s.name(), s.server.Dir(), s.server != nil
			}),
	}
}

func killRedis(_ context.Context, r *rig.Rig, rnd *rand.Rand, note *history.Fault) (healing, error) {
	s := aRedis(r, rnd)
	note.Detail = s.name()
	if r.Spec.Volatile {
		note.Loses = s.loses(history.LosesLocks, history.LosesData)
		note.Detail += ", which keeps nothing on disk"
	}
	heal := func(context.Context) error { return s.try(s.server.Restart) }
	return heal, s.try(s.server.Kill)
}

func pauseRedis(_ context.Context, r *rig.Rig, rnd *rand.Rand, note *history.Fault) (healing, error) {
	s := aRedis(r, rnd)
	note.Detail = s.name()
	heal := func(context.Context) error { return s.try(s.server.Resume) }
	return heal, s.try(s.server.Pause)
}

func emptyRedis(_ context.Context, r *rig.Rig, rnd *rand.Rand, note *history.Fault) (healing, error) {
	s := aRedis(r, rnd)
	note.Detail, note.Loses = s.name(), s.loses(history.LosesLocks, history.LosesData)
	return none, s.try(s.server.RestartEmpty)
}

func olderRedis(ctx context.Context, r *rig.Rig, rnd *rand.Rand, note *history.Fault) (healing, error) {
	s := aRedis(r, rnd)
	age := about(rnd, 400*time.Millisecond)
	note.Loses = s.loses(history.LosesLocks, history.LosesData)
	note.Detail = fmt.Sprintf("%s, by %v", s.name(), age.Round(time.Millisecond))
	if err := s.try(s.server.SaveCopy); err != nil {
		return nil, err
	}
	wait(ctx, age)
	return none, s.try(s.server.RestoreCopy)
}
