package testenv

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const slots = 16384

// RedisCluster is a private Redis Cluster. Master i has the i-th part of the slots; replica i follows master i modulo
// the number of masters. Nothing fails over by itself: the nodes have a long timeout, see TakeOver.
type RedisCluster struct {
	Masters, Replicas []*Redis
}

// StartRedisCluster starts a cluster that ends with the test, and returns when every node says that it is well and every
// replica is in step.
func StartRedisCluster(tb TB, masters, replicas int) *RedisCluster {
	tb.Helper()
	c := &RedisCluster{}
	for i := range masters + replicas {
		node := StartRedis(tb, &RedisOptions{Args: []string{
			"--cluster-enabled", "yes", "--cluster-node-timeout", "60000", "--cluster-replica-validity-factor", "0",
			"--repl-diskless-sync-delay", "0",
		}})
		if i < masters {
			c.Masters = append(c.Masters, node)
		} else {
			c.Replicas = append(c.Replicas, node)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	if err := c.join(ctx); err != nil {
		tb.Fatalf("testenv: join a Redis Cluster: %v", err)
	}
	return c
}

// Addrs returns the addresses of all nodes.
func (c *RedisCluster) Addrs() []string {
	var list []string
	for _, node := range c.nodes() {
		list = append(list, node.Addr())
	}
	return list
}

// TakeOver makes replica i the master of its master's slots, without asking anybody. (An election needs a timeout, and
// under one that is short enough to wait for, a busy machine's nodes take each other for dead.)
func (c *RedisCluster) TakeOver(i int) {
	replica := c.Replicas[i]
	replica.change("make a master of", func(ctx context.Context) error {
		return replica.ask(func(one *redis.Client) error {
			if err := one.Do(ctx, "CLUSTER", "FAILOVER", "TAKEOVER").Err(); err != nil {
				return err
			}
			return untilInfo(ctx, one, "replication", "role:master")
		})
	})
}

// AwaitReplicas waits until every replica has what its master has written by now.
func (c *RedisCluster) AwaitReplicas(tb TB) {
	tb.Helper()
	for i, master := range c.Masters {
		master.change("await a replica of", func(ctx context.Context) error {
			return master.ask(func(one *redis.Client) error {
				n := (len(c.Replicas) + len(c.Masters) - 1 - i) / len(c.Masters)
				return untilOffsets(ctx, one, n)
			})
		})
	}
}

func (c *RedisCluster) nodes() []*Redis {
	return append(c.Masters[:len(c.Masters):len(c.Masters)], c.Replicas...)
}

func (c *RedisCluster) join(ctx context.Context) error {
	all := c.nodes()
	for i, node := range all {
		err := node.ask(func(one *redis.Client) error {
			// Epochs of their own, while nobody knows anybody: else the nodes need some seconds to agree on them.
			if err := one.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err(); err != nil || i >= len(c.Masters) {
				return err
			}
			n := len(c.Masters)
			return one.ClusterAddSlotsRange(ctx, i*slots/n, (i+1)*slots/n-1).Err()
		})
		if err != nil {
			return err
		}
	}
	for i, node := range all {
		err := node.ask(func(one *redis.Client) error {
			for _, other := range all[i+1:] { // everybody meets everybody: word of third ones takes seconds
				host, port, _ := strings.Cut(other.Addr(), ":")
				if err := one.ClusterMeet(ctx, host, port).Err(); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	for i, node := range c.Replicas {
		if err := node.ask(func(one *redis.Client) error { return replicate(ctx, one, c.Masters[i%len(c.Masters)]) }); err != nil {
			return err
		}
	}
	for _, node := range all {
		if err := node.ask(func(one *redis.Client) error { return c.awaitWell(ctx, one) }); err != nil {
			return err
		}
	}
	return nil
}

// replicate makes a node the replica of a master as soon as it knows that one.
func replicate(ctx context.Context, replica *redis.Client, master *Redis) error {
	var id string
	err := master.ask(func(one *redis.Client) (err error) {
		id, err = one.ClusterMyID(ctx).Result()
		return err
	})
	if err != nil {
		return err
	}
	for {
		err := replica.ClusterReplicate(ctx, id).Err()
		if err == nil {
			return untilInfo(ctx, replica, "replication", "master_link_status:up")
		}
		if paused := pauseFor(ctx, 5*time.Millisecond); paused != nil {
			return fmt.Errorf("CLUSTER REPLICATE: %w", err)
		}
	}
}

// awaitWell waits until a node has heard of every other one and of its part.
func (c *RedisCluster) awaitWell(ctx context.Context, node *redis.Client) error {
	for {
		info, err := node.ClusterInfo(ctx).Result()
		if err != nil {
			return err
		}
		list, err := node.ClusterNodes(ctx).Result()
		if err != nil {
			return err
		}
		if strings.Contains(info, "cluster_state:ok\r\n") && strings.Count(list, " connected") == len(c.nodes()) &&
			strings.Count(list, "slave ") == len(c.Replicas) && !strings.Contains(list, "handshake") {
			return nil
		}
		if err := pauseFor(ctx, 5*time.Millisecond); err != nil {
			return fmt.Errorf("%w: %s%s", err, info, list)
		}
	}
}

// untilOffsets waits until so many replicas have acknowledged all that the master has written
// by now. (WAIT would count what this connection wrote only.)
func untilOffsets(ctx context.Context, master *redis.Client, replicas int) error {
	written := int64(-1)
	for {
		text, err := master.Info(ctx, "replication").Result()
		if err != nil {
			return err
		}
		acknowledged := 0
		for line := range strings.Lines(text) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
			switch {
			case name == "master_repl_offset" && written < 0:
				if written, err = strconv.ParseInt(value, 10, 64); err != nil {
					return err
				}
			case strings.HasPrefix(name, "slave") && strings.Contains(value, "offset="):
				_, at, _ := strings.Cut(value, "offset=")
				at, _, _ = strings.Cut(at, ",")
				if n, err := strconv.ParseInt(at, 10, 64); err == nil && written >= 0 && n >= written {
					acknowledged++
				}
			}
		}
		if acknowledged >= replicas {
			return nil
		}
		if err := pauseFor(ctx, 5*time.Millisecond); err != nil {
			return fmt.Errorf("%w: %s", err, text)
		}
	}
}
