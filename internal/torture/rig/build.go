package rig

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/torture/history"
	"github.com/fencegate/fencegate/internal/torture/link"
)

// defaultNodes is Spec.Nodes where that is 0.
const defaultNodes = 5

// Build starts everything but the clients. lines, which may be nil, is told of every line of every client, by one goroutine
// a client. After an error nothing is left.
func Build(ctx context.Context, s Spec, lines func(process int, l history.Line)) (_ *Rig, err error) {
	if s.Nodes == 0 {
		s.Nodes = defaultNodes
	}
	if s.Client.Prefix == "" {
		s.Client.Prefix = "torture-" + strings.ToLower(rand.Text()[:8]) + "-"
	}
	if err := s.check(); err != nil {
		return nil, err
	}
	r := &Rig{
		Spec: s, Links: map[string]*link.Link{}, to: map[string]string{},
		tb: &bench{}, forks: newForker(), lines: lines,
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Close())
		}
	}()
	for _, step := range []func(context.Context) error{r.startServers, r.initRedlock, r.startGateways} {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// check says what cannot be built, before anything is started.
func (s Spec) check() error {
	inGateway := s.Lock == "memory" || s.Store == "memory" || s.Store == "sqlite"
	var errs []error
	wrong := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf("torture: "+format, args...))
		}
	}
	locks, stores := []string{"memory", "redis", "redlock", "postgres", "rowlock"}, []string{"memory", "sqlite", "redis", "postgres"}
	wrong(!slices.Contains(locks, s.Lock), "lock %q: want one of %s", s.Lock, strings.Join(locks, ", "))
	wrong(!slices.Contains(stores, s.Store), "store %q: want one of %s", s.Store, strings.Join(stores, ", "))
	wrong(fencing.ValidateResource(s.Client.Prefix) != nil, "prefix %q: want the beginning of a resource's name", s.Client.Prefix)
	wrong(s.Processes < 0 || s.Processes > 1000, "%d client processes: want 0 to 1000", s.Processes)
	wrong(s.Nodes < 3 || s.Nodes > 15, "%d nodes of redlock: want 3 to 15", s.Nodes)
	wrong(inGateway && s.Gateways != 1, "%d gateways: lock %s and store %s are in one, want 1", s.Gateways, s.Lock, s.Store)
	wrong(s.Gateways < 0 || s.Gateways > 10, "%d gateways: want 0 to 10", s.Gateways)
	wrong(s.Gateways > 0 && s.Lock == "rowlock", "lock rowlock: the gateway does not have it, want no gateways")
	wrong(s.Gateways > 0 && s.Server == "", "a gateway needs the fencegate binary")
	for what, standby := range map[string]Standby{"lock": s.LockStandby, "store": s.StoreStandby} {
		wrong(!slices.Contains([]Standby{NoStandby, Async, Sync}, standby), "standby %q of the %s: want none, async or sync", standby, what)
		kind := s.Store
		if what == "lock" {
			kind = s.Lock
		}
		wrong(standby != NoStandby && !isRedis(kind) && !isPostgres(kind), "%s %s has no standby", what, kind)
		wrong(standby == Sync && isRedis(kind), "%s %s: a standby of Redis is async", what, kind)
		wrong(standby != NoStandby && (isRedis(kind) && s.RedisURL != "" || isPostgres(kind) && s.PostgresURL != ""),
			"the standby of a server that is not the run's own is not the run's to start")
	}
	wrong(s.SmallDisk < 0, "a disk of %d bytes: want 0 or more", s.SmallDisk)
	wrong(s.SmallDisk > 0 && (s.Store == "memory" || isRedis(s.Store) && s.RedisURL != "" || isPostgres(s.Store) && s.PostgresURL != ""),
		"a small disk is for a store of the run's own that is on one")
	wrong(s.RedisURL != "" && s.Lock == "redlock", "redlock needs nodes of the run's own: no Redis URL")
	wrong(s.RedisURL != "" && !isRedis(s.Lock) && !isRedis(s.Store), "there is a Redis URL, but nothing is in Redis")
	wrong(s.PostgresURL != "" && !isPostgres(s.Lock) && !isPostgres(s.Store), "there is a Postgres URL, but nothing is in Postgres")
	return errors.Join(errs...)
}

func isRedis(kind string) bool { return kind == "redis" }

func isPostgres(kind string) bool { return kind == "postgres" || kind == "rowlock" }

// Close ends everything: clients and gateways are killed. To close again does nothing.
func (r *Rig) Close() error {
	if r.closed {
		return nil
	}
	r.closed = true
	errs := []error{r.each((*Process).Kill)}
	for _, p := range r.Clients {
		_ = p.input.Close() // of those who have ended it is closed
	}
	r.closeAccess()
	for _, g := range r.Gateways {
		errs = append(errs, g.Kill())
	}
	for _, l := range r.Links {
		l.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if r.redis != nil {
		errs = append(errs, r.redis.clean(ctx, r.Spec.Client.Prefix))
	}
	if r.postgres != nil && r.Spec.PostgresURL != "" {
		errs = append(errs, r.postgres.drop(ctx))
	}
	errs = append(errs, r.tb.close())
	r.forks.close()
	return errors.Join(errs...)
}
