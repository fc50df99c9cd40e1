package rig

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"

	"github.com/redis/go-redis/v9"
)

// userRedis is a server of the user's own.
type userRedis struct {
	url *url.URL
	opt *redis.Options
}

func openUserRedis(ctx context.Context, raw string) (*userRedis, error) {
	opt, err := redis.ParseURL(raw)
	u, urlErr := url.Parse(raw)
	if err != nil || urlErr != nil || u.Hostname() == "" {
		return nil, errors.New("the Redis URL: want redis://HOST:PORT/DB") // without the URL, which may hold a password
	}
	opt.MaxRetries, opt.DialerRetries, opt.ContextTimeoutEnabled = -1, 1, true
	r := &userRedis{url: u, opt: opt}
	c := r.connect()
	defer c.Close()
	if err := c.Ping(ctx).Err(); err != nil {
		return nil, fmt.Errorf("the Redis at %s: %w", opt.Addr, err)
	}
	return r, nil
}

func (u *userRedis) connect() *redis.Client {
	opt := *u.opt
	opt.ClientName = parentName
	return redis.NewClient(&opt)
}

func (u *userRedis) addr() string {
	if _, _, err := net.SplitHostPort(u.opt.Addr); err != nil {
		return net.JoinHostPort(u.url.Hostname(), "6379")
	}
	return u.opt.Addr
}

// plain reports whether an address says all there is to say of it.
func (u *userRedis) plain() bool {
	return u.opt.Username == "" && u.opt.Password == "" && u.opt.DB == 0 && u.opt.TLSConfig == nil && u.url.RawQuery == ""
}

// clean removes all keys of resources that begin with a prefix.
func (u *userRedis) clean(ctx context.Context, prefix string) error {
	c := u.connect()
	defer c.Close()
	err := eachKey(ctx, c, prefix, "*", func(keys []string) error { return c.Unlink(ctx, keys...).Err() })
	if err != nil {
		return fmt.Errorf("remove the run's keys from the Redis at %s: %w", u.addr(), err)
	}
	return nil
}

// eachKey goes through the keys of a kind ("lock", "queue", ..., "*") of resources that begin with a prefix.
func eachKey(ctx context.Context, c *redis.Client, prefix, kind string, f func(keys []string) error) error {
	// "<prefix of all>:{<resource>}:<kind>", see packages redislock, redlock and redisstore.
	for cursor := uint64(0); ; {
		keys, next, err := c.Scan(ctx, cursor, "fencegate:{"+prefix+"*}:"+kind, 1000).Result()
		if err != nil {
			return err
		}
		if len(keys) > 0 {
			if err := f(keys); err != nil {
				return err
			}
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}
