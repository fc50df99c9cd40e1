package fault_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/internal/torture/fault"
	"github.com/fencegate/fencegate/internal/torture/history"
	"github.com/fencegate/fencegate/internal/torture/rig"
	"github.com/fencegate/fencegate/internal/torture/workload"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/storage"
)

// scene is a rig with clients at work.
type scene struct {
	*testing.T
	r   *rig.Rig
	rnd *rand.Rand

	mu    sync.Mutex
	lines map[int]int // by process
}

const slack = 30 * time.Second // of a busy machine

// start builds a rig for faults, and starts clients, which are few: these tests are about the faults.
func start(t *testing.T, s rig.Spec, faults ...string) *scene {
	t.Helper()
	for _, name := range faults {
		f := named(t, name)
		if !f.Fits(s) {
			t.Fatalf("%s does not fit %s+%s", name, s.Lock, s.Store)
		}
		if f.Prepare != nil {
			f.Prepare(&s)
		}
	}
	if s.Gateways > 0 {
		s.Server = server(t)
	}
	s.Processes = 2
	s.Client.Prefix, s.Client.Seed, s.Client.Seats, s.Client.Groups = testenv.Unique(t, "r"), 1, 6, 2
	s.Client.Workloads = []string{"register", "bank"}
	if s.Store == "postgres" {
		s.Client.Workloads = append(s.Client.Workloads, "table")
	}
	s.Client.Options = workload.Options{TTL: 400 * time.Millisecond, Wait: 3 * time.Second, Call: 2 * time.Second, Hold: 8 * time.Millisecond, Late: 0.3, Odd: 0.1}
	sc := &scene{T: t, rnd: rand.New(rand.NewPCG(1, 2)), lines: map[int]int{}}
	r, err := rig.Build(t.Context(), s, func(process int, _ history.Line) {
		sc.mu.Lock()
		defer sc.mu.Unlock()
		sc.lines[process]++
	})
	var cannot *rig.CannotError
	if errors.As(err, &cannot) {
		testenv.SharedRedis(t) // skips or fails where servers are missing
		testenv.SharedPostgres(t)
	}
	if err != nil {
		t.Fatal(err)
	}
	sc.r = r
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	access, err := r.Access(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range s.Client.Workloads {
		w, _ := workload.Named(name)
		for i := range s.Client.Groups {
			if err := sc.within(slack, func() error { // a lease can run out on a busy machine
				_, err := w.Seed(t.Context(), access, w.Resources(s.Client.Prefix, i))
				return err
			}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := r.StartClients(t.Context()); err != nil {
		t.Fatal(err)
	}
	return sc
}

func named(t *testing.T, name string) fault.Fault {
	t.Helper()
	f, ok := fault.Named(name)
	if !ok {
		t.Fatalf("there is no fault %q", name)
	}
	return f
}

// make injects a fault into clients at work, waits until seen says that it is there, heals it, and waits until there is
// service. It returns what was noted. Without seen it holds the fault for as long as it is to be held.
func (s *scene) make(name string, seen func() error) history.Fault {
	s.Helper()
	return s.makeWithNote(name, func([]int) error {
		if seen == nil {
			hold := time.NewTimer(named(s.T, name).Hold)
			defer hold.Stop()
			select {
			case <-hold.C:
			case <-s.Context().Done():
			}
			return nil
		}
		return seen()
	})
}

// makeWithNote is make with a look that is told who is paused.
func (s *scene) makeWithNote(name string, seen func(paused []int) error) history.Fault {
	s.Helper()
	f := named(s.T, name)
	for _, p := range s.r.Clients { // where nobody has gone on since the fault before, this one may find nothing to do
		at := s.written(p.ID())
		if err := s.within(slack, func() error { return s.goesOn(p.ID(), at) }); err != nil {
			s.Fatalf("before %s: %v", name, err)
		}
	}
	note := history.Fault{Name: name, Loses: f.Loses, From: history.Now()}
	heal, err := f.Inject(s.Context(), s.r, s.rnd, &note)
	note.Injected = history.Now()
	if err == nil {
		err = s.within(slack, func() error { return seen(note.Paused) })
	}
	note.Heal = history.Now()
	if heal != nil {
		err = errors.Join(err, heal(context.WithoutCancel(s.Context())))
	}
	note.To = history.Now()
	if err != nil {
		s.Fatalf("%s: %v", name, err)
	}
	if err := s.within(slack, s.served); err != nil {
		s.Fatalf("%s: no service after it was healed: %v", name, err)
	}
	s.Logf("%s: %s (injected in %v, healed in %v, served again in %v)", name, note.Detail, time.Duration(note.Injected-note.From).Round(time.Millisecond),
		time.Duration(note.To-note.Heal).Round(time.Millisecond), time.Duration(history.Now()-note.To).Round(time.Millisecond))
	return note
}

// within calls look until it returns nil.
func (s *scene) within(d time.Duration, look func() error) error {
	for deadline := time.Now().Add(d); ; {
		err := look()
		if err == nil || time.Now().After(deadline) || s.Context().Err() != nil {
			return err
		}
		select {
		case <-s.Context().Done():
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// served takes a lock and writes.
func (s *scene) served() error {
	ctx, cancel := context.WithTimeout(s.Context(), 5*time.Second)
	defer cancel()
	access, err := s.r.Access(ctx)
	if err != nil {
		return err
	}
	resource := s.r.Spec.Client.Prefix + "-served"
	g, err := access.Issuer.Grant(ctx, locking.Request{Resource: resource, Grant: fencing.NewGrant(), TTL: 5 * time.Second, Wait: time.Second})
	if err != nil {
		return err
	}
	_, err = access.Store.Commit(ctx, storage.Commit{Tokens: []fencing.Token{g.Token}, Ops: []storage.Op{storage.Put(resource, "k", []byte("v"))}})
	_, free := access.Issuer.Release(ctx, g.Token)
	return errors.Join(err, free)
}

func (s *scene) written(process int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lines[process]
}

// goesOn is nil when a process has written more than before.
func (s *scene) goesOn(process, before int) error {
	if s.written(process) <= before+10 {
		return fmt.Errorf("process %d does not work", process)
	}
	return nil
}

// redis asks a server of the rig, past its link.
func (s *scene) redis(name string, ask func(ctx context.Context, c *redis.Client) error) error {
	c := redis.NewClient(&redis.Options{Addr: s.r.Server(name), MaxRetries: -1, DialerRetries: 1, ReadTimeout: time.Second, ContextTimeoutEnabled: true})
	defer c.Close()
	ctx, cancel := context.WithTimeout(s.Context(), time.Second)
	defer cancel()
	return ask(ctx, c)
}

// sql asks the run's database, past its link.
func (s *scene) sql(dest any, sql string, args ...any) error {
	ctx, cancel := context.WithTimeout(s.Context(), 2*time.Second)
	defer cancel()
	c, err := pgx.Connect(ctx, s.r.PostgresURL())
	if err != nil {
		return err
	}
	defer func() { _ = c.Close(context.WithoutCancel(ctx)) }()
	return c.QueryRow(ctx, sql, args...).Scan(dest)
}

// want is an error unless an error is there and is of a kind.
func want(got error, is func(error) bool) error {
	switch {
	case got == nil:
		return errors.New("there is no error")
	case !is(got):
		return fmt.Errorf("not the error that was to be: %w", got)
	}
	return nil
}

func anyError(error) bool { return true }
