package rig

import (
	"context"
	_ "embed" // the queries
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/internal/torture/history"
	"github.com/fencegate/fencegate/locking"
)

// How long what was left may take to go by itself.
const (
	// A server that waits for something on behalf of a client that was killed sees it afterwards.
	connectionsTimeout = 10 * time.Second
	// What comes on top of a TTL and of PlaceTTL.
	goTimeout = 2 * time.Second
	lookAgain = 50 * time.Millisecond
)

// Leaks looks for what the clients have left in the servers, after StopClients and when all faults are healed:
//
//   - connections to a server of the run's own, or to the run's database; not those of the gateways, which
//     stay, and of the parent. On a Redis of the user's own nobody knows whose they are, and they are not looked for;
//   - locks that are held although the longest TTL and two seconds are over: leases that were left without a
//     release, and those of killed clients, have ended by then;
//   - waiters: places in line that somebody keeps, or that never end. A killed client leaves a place, which is dead after
//     locking.PlaceTTL, and which in Postgres stays until somebody asks for that lock: that is no leak. Redlock, row
//     locks and the memory of a gateway have no line that could be looked at.
//
// It waits for them as long as they may take, and no longer than until all are gone.
func (r *Rig) Leaks(ctx context.Context) ([]history.Leak, error) {
	var leaks []history.Leak
	var errs []error
	began := time.Now()
	look := func(within time.Duration, what, where string, f func(context.Context) (int, string, error)) {
		for {
			n, text, err := f(ctx)
			if err == nil && n == 0 {
				return
			}
			// All began to go at the same time.
			if time.Since(began) < within && ctx.Err() == nil {
				time.Sleep(lookAgain)
				continue
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("look for %s in %s: %w", what, where, err))
				return
			}
			leaks = append(leaks, history.Leak{What: what, Where: where, Count: n, Text: text})
			return
		}
	}
	places := locking.PlaceTTL + goTimeout
	for _, name := range r.serverNames() {
		switch r.kindOf(name) {
		case "postgres":
			look(connectionsTimeout, "connections", name, func(ctx context.Context) (int, string, error) {
				return r.askPostgres(ctx, name, connectionsSQL, parentName)
			})
			look(places, "waiters", name, func(ctx context.Context) (int, string, error) {
				return r.askPostgres(ctx, name, waitersSQL, r.Spec.Client.Prefix, locking.PlaceTTL)
			})
		default:
			if r.redis == nil {
				look(connectionsTimeout, "connections", name, r.inRedis(name, redisConnections))
			}
			look(places, "waiters", name, r.inRedis(name, r.redisWaiters))
		}
	}
	ttl := r.Spec.Client.TTL
	if ttl == 0 {
		ttl = locking.DefaultTTL
	}
	look(max(ttl, locking.PushTTL)+goTimeout, "locks", r.Spec.Lock, r.locks)
	return leaks, errors.Join(errs...)
}

// serverNames are the names of all servers, sorted, without those of gateways.
func (r *Rig) serverNames() []string {
	names := r.LockNames()
	if s := r.StoreName(); s != "" && !slices.Contains(names, s) {
		names = append(names, s)
	}
	return names
}

// kindOf is "postgres" or "redis".
func (r *Rig) kindOf(name string) string {
	if name == r.StoreName() && isPostgres(r.Spec.Store) || name != r.StoreName() && isPostgres(r.Spec.Lock) {
		return "postgres"
	}
	return "redis"
}

// locks finds holds of the run's resources.
func (r *Rig) locks(ctx context.Context) (int, string, error) {
	a, err := r.Access(ctx)
	if err != nil {
		return 0, "", err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	list, err := a.Issuer.List(ctx, r.Spec.Client.Prefix, "", 1000)
	if err != nil {
		return 0, "", err
	}
	n, text := 0, ""
	for _, s := range list {
		if !s.Held {
			continue
		}
		if n++; n <= 3 {
			text += fmt.Sprintf("%s: %d, held by %q for another %v; ", s.Resource, s.Number, s.Label, s.Remaining)
		}
	}
	return n, strings.TrimSuffix(text, "; "), nil
}

//go:embed sql/connections.sql
var connectionsSQL string

//go:embed sql/waiters.sql
var waitersSQL string

// askPostgres runs a query that returns a count and a text, on a connection of its own.
func (r *Rig) askPostgres(ctx context.Context, name, sql string, args ...any) (n int, text string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	c, err := pgx.Connect(ctx, r.postgres.at(r.Server(name), parentName))
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = c.Close(context.WithoutCancel(ctx)) }()
	err = c.QueryRow(ctx, sql, args...).Scan(&n, &text)
	return n, text, err
}

// inRedis gives f a client of a server.
func (r *Rig) inRedis(name string, f func(context.Context, *redis.Client) (int, string, error)) func(context.Context) (int, string, error) {
	return func(ctx context.Context) (int, string, error) {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		a := &access{to: map[string]string{name: r.Server(name)}}
		defer a.close()
		return f(ctx, r.openRedis(a, name))
	}
}

// redisConnections counts those of clients: not the parent's, those of gateways and replication.
func redisConnections(ctx context.Context, c *redis.Client) (int, string, error) {
	list, err := c.ClientList(ctx).Result()
	if err != nil {
		return 0, "", err
	}
	n, text := 0, ""
	for line := range strings.Lines(list) {
		field := map[string]string{}
		for _, f := range strings.Fields(line) {
			k, v, _ := strings.Cut(f, "=")
			field[k] = v
		}
		if field["name"] == parentName || strings.HasPrefix(field["name"], gatewayPrefix) || strings.ContainsAny(field["flags"], "SM") {
			continue
		}
		// One that has not said anything, its name neither, is that of a dial which came too late for the call that it was
		// for. It waits in the pool of a process that lives: the parent, or a gateway.
		if field["cmd"] == "NULL" {
			continue
		}
		if n++; n <= 3 {
			text += fmt.Sprintf("%s, age %s s, idle %s s, last %s; ", field["addr"], field["age"], field["idle"], field["cmd"])
		}
	}
	return n, strings.TrimSuffix(text, "; "), nil
}

// redisWaiters counts the places in line that are alive, see package redislock, and lines that never end.
func (r *Rig) redisWaiters(ctx context.Context, c *redis.Client) (int, string, error) {
	now, err := c.Time(ctx).Result()
	if err != nil {
		return 0, "", err
	}
	n, text := 0, ""
	found := func(key, what string) {
		if n++; n <= 3 {
			text += key + ": " + what + "; "
		}
	}
	for _, kind := range []string{"queue", "waiters"} {
		err = errors.Join(err, eachKey(ctx, c, r.Spec.Client.Prefix, kind, func(keys []string) error {
			for _, key := range keys {
				left, err := c.PTTL(ctx, key).Result()
				if err != nil {
					return err
				}
				if left == -1 { // there, and without an end
					found(key, "never ends")
				}
				if kind == "queue" {
					continue
				}
				places, err := c.HVals(ctx, key).Result()
				if err != nil {
					return err
				}
				for _, place := range places { // "<seen> <ttl> <channel> <label>"
					seen, _, _ := strings.Cut(place, " ")
					ms, err := strconv.ParseInt(seen, 10, 64)
					if err != nil {
						return fmt.Errorf("%s: a place is %q", key, place)
					}
					if age := now.Sub(time.UnixMilli(ms)); age.Abs() <= locking.PlaceTTL {
						found(key, fmt.Sprintf("kept %v ago", age.Round(time.Millisecond)))
					}
				}
			}
			return nil
		}))
	}
	return n, strings.TrimSuffix(text, "; "), err
}
