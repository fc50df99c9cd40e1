package redisx

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/fencing"
)

// CheckServers refuses a Redis older than 6.2 and a replica, and what more, which may be
// nil, refuses of the fields of INFO. Of a cluster every master is asked. A refusal is a
// [*fencing.InvalidError]; other errors say that a server was not reached.
func CheckServers(ctx context.Context, c redis.UniversalClient, more func(info map[string]string) error) error {
	return eachServer(ctx, c, func(ctx context.Context, c redis.Cmdable) error {
		info, err := readInfo(ctx, c)
		if err != nil {
			return err
		}
		if v := info["redis_version"]; !atLeast(v, 6, 2) {
			return &fencing.InvalidError{What: "Redis version", Got: strconv.Quote(v), Allowed: "6.2 or later"}
		}
		if info["role"] != "master" {
			return &fencing.InvalidError{What: "Redis server", Got: "that is a replica", Allowed: "the primary"}
		}
		if more == nil {
			return nil
		}
		return more(info)
	})
}

// CheckPolicy refuses a server that evicts keys when its memory is full; why says what
// that would do.
func CheckPolicy(info map[string]string, why string) error {
	if policy := info["maxmemory_policy"]; policy != "noeviction" {
		return &fencing.InvalidError{
			What: "maxmemory-policy", Got: strconv.Quote(policy),
			Allowed: "noeviction (maxmemory-policy noeviction in redis.conf): " + why,
		}
	}
	return nil
}

// Warnings says in one sentence each how a server may lose what it acknowledged, or
// nothing if it keeps all; evicts says what an evicted key would do. Of a cluster every
// master is asked. An error says that a server was not reached.
func Warnings(ctx context.Context, c redis.UniversalClient, evicts string) ([]string, error) {
	var mu sync.Mutex // guards list: a cluster client asks its masters concurrently
	var list []string
	seen := map[string]bool{}
	err := eachServer(ctx, c, func(ctx context.Context, c redis.Cmdable) error {
		info, err := readInfo(ctx, c)
		if err != nil {
			return err
		}
		found := warnings(info, evicts, func() (string, error) {
			conf, err := c.ConfigGet(ctx, "appendfsync").Result()
			return conf["appendfsync"], err
		})
		mu.Lock()
		defer mu.Unlock()
		for _, w := range found {
			if !seen[w] {
				seen[w] = true
				list = append(list, w)
			}
		}
		return nil
	})
	return list, err
}

func warnings(info map[string]string, evicts string, fsync func() (string, error)) []string {
	var list []string
	if err := CheckPolicy(info, evicts); err != nil {
		list = append(list, "Redis may evict keys: "+err.Error()+".")
	}
	if info["aof_enabled"] != "1" {
		list = append(list, "Redis keeps no append-only file: a restart loses every write since the last snapshot; set appendonly yes and appendfsync always.")
	} else if policy, err := fsync(); err != nil || policy == "" {
		list = append(list, "Redis does not tell its appendfsync: unless it is always, a crash loses the last acknowledged writes.")
	} else if policy != "always" {
		list = append(list, "Redis has appendfsync "+policy+": a crash of its machine loses the last acknowledged writes; set appendfsync always.")
	}
	if s := info["aof_last_write_status"]; info["aof_enabled"] == "1" && s != "" && s != "ok" {
		list = append(list, "Redis could not write its append-only file (aof_last_write_status "+s+").")
	}
	if n := info["connected_slaves"]; n != "" && n != "0" {
		list = append(list, "Redis replicates asynchronously: a failover to a replica loses the last acknowledged writes.")
	}
	return list
}

// eachServer runs fn on the server, or on every master of a cluster.
func eachServer(ctx context.Context, c redis.UniversalClient, fn func(context.Context, redis.Cmdable) error) error {
	if err := ctx.Err(); err != nil {
		return fencing.AsFailed(err)
	}
	if c, ok := c.(*redis.ClusterClient); ok {
		return c.ForEachMaster(ctx, func(ctx context.Context, c *redis.Client) error { return fn(ctx, c) })
	}
	return fn(ctx, c)
}

// readInfo returns the fields of INFO.
func readInfo(ctx context.Context, c redis.Cmdable) (map[string]string, error) {
	text, err := c.Info(ctx).Result()
	if redis.HasErrorPrefix(err, "NOPERM") {
		return nil, forbidden("INFO", err.Error(), "INFO")
	}
	if err != nil {
		return nil, fencing.AsFailed(fmt.Errorf("redis: %w", err))
	}
	info := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ":"); ok {
			info[name] = value
		}
	}
	return info, nil
}

func atLeast(version string, major, minor int) bool {
	a, rest, _ := strings.Cut(version, ".")
	b, _, _ := strings.Cut(rest, ".")
	x, err1 := strconv.Atoi(a)
	y, err2 := strconv.Atoi(b)
	return err1 == nil && err2 == nil && (x > major || x == major && y >= minor)
}
