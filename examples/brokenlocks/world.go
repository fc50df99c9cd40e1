package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/diagram"
	"github.com/fencegate/fencegate/migrations"
	"github.com/fencegate/fencegate/storage"
	"github.com/fencegate/fencegate/storage/memstore"
	"github.com/fencegate/fencegate/storage/pgstore"
	"github.com/fencegate/fencegate/storage/redisstore"
)

// Node is one Redis server, of which nothing survives its end. Its address stays the same.
type Node interface {
	Addr() string
	Kill(ctx context.Context) error    // it is gone, from one instant to the next
	Hang(ctx context.Context) error    // it takes connections and answers nothing, until Restart
	Restart(ctx context.Context) error // it answers again, and is empty; one that runs is killed first
}

// Clock is a Node whose clock can be moved: each of Clocks.
type Clock interface {
	Node
	Jump(d time.Duration) // its clock jumps forward by d
}

// World is where exhibits are shown.
type World struct {
	// Real says that Nodes are Redis servers. Else they are stand-ins in this process.
	Real bool
	// Nodes are the Redis servers, six for all exhibits. They are emptied for each telling.
	Nodes []Node
	// Clocks are stand-ins in any case, six.
	Clocks []Node
	// Database returns the URL of a new and empty database of PostgreSQL. Nil: there is none.
	Database func(ctx context.Context) (url string, err error)
	// NoDatabase says why there is none. Default: it is not installed.
	NoDatabase string
	TTL        time.Duration // of the locks
}

// locks is how many Redis servers hold locks, data on which of them the data lies: on a server of its
// own where those of the lock are broken.
func (n Needs) locks() (locks, data int) {
	switch n {
	case Replica:
		return 2, 2
	case Nodes, Clocks:
		return 5, 5
	default:
		return 1, 0
	}
}

// errNotHere says that an exhibit needs servers that are not there.
type errNotHere struct{ needs string }

func (e *errNotHere) Error() string { return "needs " + e.needs }

// mostTries is how often a story is told where the machine is slower than its locks, each time with
// locks that last twice as long.
const mostTries = 6

// Play tells e once and returns what came of it. A story that did not go as it must, because the
// machine was slower than a lock's time, is told again with locks that last longer. An *errNotHere
// says that w lacks what e needs.
func (w *World) Play(ctx context.Context, e Exhibit, fenced bool) (seen Seen, err error) {
	for try := range mostTries {
		seen, err = w.play(ctx, e, fenced, w.TTL<<try)
		if _, ok := errors.AsType[*errStory](err); !ok {
			break
		}
	}
	return seen, err
}

func (w *World) play(ctx context.Context, e Exhibit, fenced bool, ttl time.Duration) (Seen, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s := &Scene{
		Fenced: fenced, TTL: ttl, thing: e.Thing, cancel: cancel,
		clients: map[string]*redis.Client{}, tokens: map[string]fencing.Token{}, read: map[string]int64{},
	}
	defer s.close()
	if err := w.furnish(ctx, s, e); err != nil {
		return Seen{}, err
	}
	if err := s.data.write(ctx, s.setter(), e.Thing.start()); err != nil {
		return Seen{}, fmt.Errorf("the first value: %w", err)
	}
	s.start = time.Now()
	s.seen = Seen{CounterOK: e.Thing.start()}
	err := e.Tell(ctx, s)
	s.mu.Lock()
	err = errors.Join(s.err, err)
	s.mu.Unlock()
	if err != nil {
		return Seen{}, err
	}
	return s.end(ctx)
}

// setter is whoever wrote the first value: a holder before all of the story.
func (s *Scene) setter() fencing.Token {
	return fencing.Token{Resource: s.thing.key(), Number: firstNumber - 1}
}

// firstNumber is the first number that is drawn in a telling.
const firstNumber = 33

// end measures what is left when everything has been told.
func (s *Scene) end(ctx context.Context) (Seen, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	s.seen.CounterIs, err = s.data.last(ctx, s.thing.key())
	if err != nil {
		return Seen{}, fmt.Errorf("the last value: %w", err)
	}
	if is, want := s.seen.CounterIs, s.seen.CounterOK; is != want && s.seen.Damage == "" {
		s.seen.Damage = fmt.Sprintf("%d writes were acknowledged; by them it is %d %s, and the store says %d",
			s.seen.Accepted, want, s.thing.unit(), is)
	}
	mode := "takes all"
	if s.checked() {
		mode = "fenced"
	}
	s.seen.Diagram.Lanes = []string{A, B, Lock, Store}
	s.seen.Diagram.Heads = []string{"", "", "", mode}
	return s.seen, nil
}

func (s *Scene) close() {
	for _, c := range s.clients {
		_ = c.Close()
	}
	for _, end := range s.ends {
		end()
	}
}

// furnish makes the servers empty and connects s with them.
func (w *World) furnish(ctx context.Context, s *Scene, e Exhibit) error {
	if e.Needs == Postgres {
		return w.furnishPostgres(ctx, s, e)
	}
	if e.Needs == Replica && !w.Real {
		return &errNotHere{"redis-server in PATH"}
	}
	nodes, real := w.Nodes, w.Real
	if e.Needs == Clocks {
		nodes, real = w.Clocks, false
	}
	locks, data := e.Needs.locks()
	if len(nodes) <= data {
		return fmt.Errorf("%d Redis servers where %d are needed", len(nodes), data+1)
	}
	all := make([]*redis.Client, data+1)
	for i := range all {
		all[i] = dial(nodes[i].Addr())
		s.ends = append(s.ends, func() { _ = all[i].Close() })
		if err := empty(ctx, nodes[i], all[i], real); err != nil {
			return err
		}
	}
	s.Redis, s.Nodes = all[:locks], nodes[:locks]
	s.number = s.numberFromRedis
	s.data = plainRedis{all[data]}
	if !s.Fenced || e.NoFence {
		return nil
	}
	var b storage.Backend = memstore.New(nil) // the stand-in has no INFO, which tells one run of a server from the next
	if real {
		var err error
		if b, err = redisstore.New(ctx, all[data], nil); err != nil {
			return err
		}
	}
	return s.fence(ctx, b, real)
}

// fence puts the counter into a store that checks tokens.
func (s *Scene) fence(ctx context.Context, b storage.Backend, real bool) error {
	f, err := newFenced(b)
	if err != nil {
		return err
	}
	s.data = f
	s.issuer, err = s.newIssuer(ctx, f.store, real)
	return err
}

// empty makes a node as it was at first.
func empty(ctx context.Context, n Node, c *redis.Client, real bool) error {
	short, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if c.Ping(short).Err() != nil {
		return n.Restart(ctx)
	}
	if real {
		if err := c.ReplicaOf(ctx, "NO", "ONE").Err(); err != nil {
			return err
		}
	}
	return c.FlushAll(ctx).Err()
}

// patience is how long a server may take to answer before it counts as broken.
const patience = time.Second

func (w *World) furnishPostgres(ctx context.Context, s *Scene, e Exhibit) error {
	if w.Database == nil {
		return &errNotHere{cmp.Or(w.NoDatabase, "PostgreSQL (initdb, postgres in PATH or /usr/lib/postgresql/*/bin)")}
	}
	url, err := w.Database(ctx)
	if err != nil {
		return err
	}
	m, err := migrations.Open(ctx, url)
	if err != nil {
		return err
	}
	_, err = m.Up(ctx)
	if err = errors.Join(err, m.Close()); err != nil {
		return err
	}
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return err
	}
	pgstore.Configure(cfg)
	if s.DB, err = pgxpool.NewWithConfig(ctx, cfg); err != nil {
		return err
	}
	s.ends = append(s.ends, s.DB.Close)
	_, err = s.DB.Exec(ctx, fmt.Sprintf(`CREATE TABLE counters (name text PRIMARY KEY, value bigint NOT NULL);
		CREATE SEQUENCE numbers START %d`, firstNumber))
	if err != nil {
		return err
	}
	s.number = s.numberFromPostgres
	s.data = plainPostgres{s.DB}
	if !s.Fenced || e.NoFence {
		return nil
	}
	b, err := pgstore.New(ctx, s.DB, nil)
	if err != nil {
		return err
	}
	return s.fence(ctx, b, true)
}

// numberFromRedis draws a number above the one given: INCR on every node that answers, of which the
// highest counts. Where the counters have forgotten, the store's refusal says how far they must be.
func (s *Scene) numberFromRedis(ctx context.Context, who string, above int64) (int64, error) {
	var highest int64
	var errs error
	short, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, c := range s.Redis {
		// SETNX where the counter is new, so that the numbers of all exhibits begin alike.
		if err := c.SetNX(short, "number", max(above, firstNumber-1), 0).Err(); err != nil {
			errs = errors.Join(errs, err)
			continue
		}
		n, err := c.Incr(short, "number").Result()
		if err == nil && n <= above {
			n, err = c.IncrBy(short, "number", above-n+1).Result()
		}
		errs = errors.Join(errs, err)
		highest = max(highest, n)
	}
	if highest == 0 {
		return 0, errs
	}
	s.draw(diagram.Item{From: who, To: Lock, Label: fmt.Sprintf("INCR number: %d", highest)})
	return highest, nil
}

func (s *Scene) numberFromPostgres(ctx context.Context, who string, above int64) (n int64, err error) {
	for n <= above && err == nil {
		err = s.DB.QueryRow(ctx, "SELECT nextval('numbers')").Scan(&n)
	}
	s.draw(diagram.Item{From: who, To: Lock, Label: fmt.Sprintf("nextval('numbers'): %d", n)})
	return n, err
}

// judge says what is wrong with an exhibit, by what its two tellings came to: the damage has to be
// there in the first and not in the second. Nil: nothing is.
func judge(e Exhibit, first, second Seen) error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if first.Damage == "" {
		wrong("nothing was damaged in the first telling")
	}
	if !e.Liveness && !e.NoFence && first.CounterIs == first.CounterOK {
		wrong("no acknowledged write was lost in the first telling")
	}
	if second.Damage != "" {
		wrong("in the second telling: %s", second.Damage)
	}
	if second.CounterIs != second.CounterOK {
		wrong("the counter of the second telling says %d, not %d", second.CounterIs, second.CounterOK)
	}
	if second.Accepted == 0 {
		wrong("no write was accepted in the second telling")
	}
	if first.Refused != 0 && !e.NoFence && !e.Liveness {
		wrong("%d writes were refused in the first telling", first.Refused)
	}
	if second.Refused == 0 && !e.NoFence && !e.Liveness {
		wrong("no write was refused in the second telling")
	}
	return errors.Join(errs...)
}
