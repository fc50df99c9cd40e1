package testenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
)

// Set changes a setting that needs no restart, for later starts too (ALTER SYSTEM and a reload), like
// "synchronous_standby_names", "*". New connections have it when Set returns; older ones take it over a moment later.
func (p *Postgres) Set(name, value string) {
	p.tb.Helper()
	p.change("set "+name+" of", func(ctx context.Context) error {
		err := p.ask(ctx, func(c *pgx.Conn) error {
			_, err := c.Exec(ctx, "ALTER SYSTEM SET "+pgx.Identifier{name}.Sanitize()+" = '"+strings.ReplaceAll(value, "'", "''")+"'")
			if err == nil {
				_, err = c.Exec(ctx, "SELECT pg_reload_conf()")
			}
			return err
		})
		for there := false; err == nil && !there; {
			err = p.ask(ctx, func(c *pgx.Conn) error {
				return c.QueryRow(ctx, "SELECT current_setting($1) = $2", name, value).Scan(&there)
			})
			if err == nil {
				err = pauseFor(ctx, time.Millisecond)
			}
		}
		return err
	})
}

// Detach makes a standby receive nothing more from its primary: whatever that one writes from now on, this one lacks.
func (p *Postgres) Detach() {
	p.tb.Helper()
	p.Set("primary_conninfo", "")
	p.change("detach", func(ctx context.Context) error {
		return p.ask(ctx, func(c *pgx.Conn) error {
			return until(ctx, c, "SELECT count(*) = 0 FROM pg_stat_wal_receiver")
		})
	})
}

// Promote makes a standby a primary with what it has, and returns when it takes writes.
func (p *Postgres) Promote() {
	p.tb.Helper()
	p.change("promote", func(ctx context.Context) error {
		return p.ask(ctx, func(c *pgx.Conn) error {
			if _, err := c.Exec(ctx, "SELECT pg_promote(true, 60)"); err != nil {
				return err
			}
			return until(ctx, c, "SELECT NOT pg_is_in_recovery()")
		})
	})
}

// AwaitStandby waits until a standby follows the server: "streaming" for any, "sync" for one that commits wait for.
func (p *Postgres) AwaitStandby(state string) {
	p.tb.Helper()
	p.change("await a standby of", func(ctx context.Context) error {
		return p.ask(ctx, func(c *pgx.Conn) error {
			return until(ctx, c, "SELECT count(*) > 0 FROM pg_stat_replication WHERE $1 IN (state, sync_state)", state)
		})
	})
}

// SaveBackup takes a base backup of the running server, in the place of an earlier copy: RestoreCopy puts it back.
func (p *Postgres) SaveBackup() {
	p.tb.Helper()
	p.change("back up", func(ctx context.Context) error {
		e, ok := p.s.engine.(*postgresEngine)
		if !ok {
			return errors.New("it is no PostgreSQL server")
		}
		if err := os.RemoveAll(p.s.copyDir()); err != nil {
			return err
		}
		return p.s.run(ctx, e.program(p.s, "pg_basebackup", "-D", p.s.copyDir(), "-d", p.URL(), "-X", "stream", "-c", "fast", "--no-sync"))
	})
}

// ask gives fn a connection of its own.
func (p *Postgres) ask(ctx context.Context, fn func(*pgx.Conn) error) error {
	c, err := pgx.Connect(ctx, p.URL())
	if err != nil {
		return err
	}
	defer func() { _ = c.Close(context.WithoutCancel(ctx)) }()
	return fn(c)
}

// until repeats a query until it says true.
func until(ctx context.Context, c *pgx.Conn, sql string, args ...any) error {
	for {
		var ok bool
		if err := c.QueryRow(ctx, sql, args...).Scan(&ok); err != nil || ok {
			return err
		}
		if err := pauseFor(ctx, 5*time.Millisecond); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
	}
}

func pauseFor(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// Follow makes the server a replica of the one at addr, in the place of its data, and returns when it is in step. Start
// the other one with "--repl-diskless-sync-delay", "0": else it waits some seconds for more replicas.
func (r *Redis) Follow(addr string) {
	r.tb.Helper()
	host, port, _ := strings.Cut(addr, ":")
	r.change("attach", func(ctx context.Context) error {
		return r.ask(func(c *redis.Client) error {
			if err := c.ReplicaOf(ctx, host, port).Err(); err != nil {
				return err
			}
			return untilInfo(ctx, c, "replication", "master_link_status:up")
		})
	})
}

// Promote makes a replica a primary with what it has.
func (r *Redis) Promote() {
	r.tb.Helper()
	r.change("promote", func(ctx context.Context) error {
		return r.ask(func(c *redis.Client) error { return c.ReplicaOf(ctx, "NO", "ONE").Err() })
	})
}

func (r *Redis) ask(fn func(*redis.Client) error) error {
	c := (*redisEngine)(nil).connect(r.s)
	defer c.Close()
	return fn(c)
}

// untilInfo repeats INFO until it has a line.
func untilInfo(ctx context.Context, c *redis.Client, section, line string) error {
	for {
		text, err := c.Info(ctx, section).Result()
		if err == nil && strings.Contains(text, line+"\r\n") {
			return nil
		}
		if paused := pauseFor(ctx, 5*time.Millisecond); paused != nil {
			return fmt.Errorf("INFO has no %s: %w", line, errors.Join(paused, err))
		}
	}
}
