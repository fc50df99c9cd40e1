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

// step says what a replica has when it is promoted.
type step bool

const (
	lagging step = false // it lacks the last writes
	inStep  step = true  // it lacks nothing
)

func failoverRedis(how step) Fault {
	f := Fault{
		Name: "redis-failover-lagging",
		What: "the primary is killed, and a replica takes its place that lacks the last writes",
		Expect: "a lock that has forgotten holds and numbers is corrected by the store; a store shows a new incarnation: " +
			"what it has lost nobody builds upon",
		Loses: []history.Loss{history.LosesLocks, history.LosesCommits},
		Own:   true, Fits: inRedis, Hold: 200 * time.Millisecond, Prepare: redisStandbys,
	}
	if how == inStep {
		f.Name, f.Loses = "redis-failover-in-step", nil
		f.What = "a planned failover: the primary is cut off, its replica catches up and takes its place"
		f.Expect = "nothing is lost; as a store it shows a new incarnation, and all leases end"
	}
	f.Inject = func(ctx context.Context, r *rig.Rig, rnd *rand.Rand, note *history.Fault) (healing, error) {
		s := aRedis(r, rnd)
		standby := s.standby()
		if *standby == nil {
			return nil, fmt.Errorf("the Redis of the %s has no replica", s.name())
		}
		note.Detail = s.name()
		if how == lagging {
			note.Loses = s.loses(history.LosesLocks, history.LosesCommits)
			lag := about(rnd, 400*time.Millisecond)
			note.Detail += fmt.Sprintf(", which lacked the last %v", lag.Round(time.Millisecond))
			if err := (redisServer{r, *standby, s.lock, s.store}).ask(func(c *redis.Client) error { return detach(ctx, c) }); err != nil {
				return nil, err
			}
			wait(ctx, lag)
		} else {
			link := r.Links[s.name()]
			if link == nil {
				return nil, fmt.Errorf("there is no link to the Redis of the %s", s.name())
			}
			link.MoveTo("")
			if err := s.awaitReplica(ctx, *standby); err != nil {
				link.MoveTo(s.server.Addr())
				return nil, err
			}
		}
		return s.failOver(standby)
	}
	return f
}

// redisStandbys asks for a replica of each Redis.
func redisStandbys(s *rig.Spec) {
	s.Links = true
	if lockInRedis(*s) {
		s.LockStandby = rig.Async
	}
	if storeInRedis(*s) {
		s.StoreStandby = rig.Async
	}
}

// standby returns the place of its replica in the rig.
func (s redisServer) standby() **testenv.Redis {
	if s.lock {
		return &s.r.LockRedisStandby
	}
	return &s.r.StoreRedisStandby
}

// awaitReplica waits until the replica has all that the primary has, to which nobody writes any more.
func (s redisServer) awaitReplica(ctx context.Context, replica *testenv.Redis) error {
	position := func(server *testenv.Redis, field string) (at string, err error) {
		err = (redisServer{s.r, server, s.lock, s.store}).ask(func(c *redis.Client) error {
			text, err := c.Info(ctx, "replication").Result()
			if _, after, found := strings.Cut(text, "\n"+field+":"); found {
				at, _, _ = strings.Cut(after, "\r")
			}
			return err
		})
		return at, err
	}
	return until(ctx, 10*time.Second, "the replica catches up", func() (bool, error) {
		all, err := position(s.server, "master_repl_offset")
		if err != nil {
			return false, err
		}
		has, err := position(replica, "slave_repl_offset")
		return all != "" && has == all, err
	})
}

// failOver kills the primary, and puts its replica in its place. Healed, the old one is a replica of the new one.
func (s redisServer) failOver(standby **testenv.Redis) (healing, error) {
	old, heir := s.server, *standby
	heal := func(context.Context) error {
		return s.try(func() {
			old.Restart()
			old.Follow(heir.Addr())
		})
	}
	err := errors.Join(s.try(old.Kill), s.try(heir.Promote))
	if err != nil {
		return heal, err
	}
	*standby = old
	if s.lock {
		s.r.LockRedis[0] = heir
	}
	if s.store {
		s.r.StoreRedis = heir
	}
	return heal, s.r.Switch(s.name(), heir.Addr())
}
