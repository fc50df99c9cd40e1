package failovertest_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/storage"
)

// bench is a lock and a store, as their users have them.
type bench struct {
	name   string
	locker *locking.Locker
	store  *storage.Store
}

func newBench(t *testing.T, name string, lock locking.Backend, data storage.Backend) bench {
	t.Helper()
	store, err := storage.New(data, nil)
	if err != nil {
		t.Fatal(err)
	}
	issuer, err := locking.NewIssuer(lock, []fencing.Fence{store}, nil)
	if err != nil {
		t.Fatal(err)
	}
	locker, err := locking.New(issuer, &locking.Options{TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	return bench{name, locker, store}
}

// write is one write: the n-th of its record, by whoever had read the one before.
type write struct {
	n       int64
	before  string // the id of the write that was read; empty for none
	outcome fencing.Outcome
	known   bool // the outcome is
}

// log is what the writers of a test have done.
type log struct {
	*testing.T

	mu     sync.Mutex // guards the fields below
	writes map[string]*write
	next   int
	acks   map[string]int // per writer, how many of its writes were acknowledged
}

func newLog(t *testing.T) *log {
	return &log{T: t, writes: map[string]*write{}, acks: map[string]int{}}
}

// seen is a record as it was read.
type seen struct {
	n  int64
	id string
}

// parse checks a record on the way: its version must be the number of writes that it says.
func (l *log) parse(rec storage.Record) seen {
	count, id, _ := strings.Cut(string(rec.Value), " ")
	n, err := strconv.ParseInt(count, 10, 64)
	if err != nil || n != rec.Version {
		l.Errorf("%s: the record says %q, and its version is %d: it was written from a read that this store never gave", rec.Resource, rec.Value, rec.Version)
	}
	return seen{n, id}
}

// read reads the record inside the fence.
func (l *log) read(ctx context.Context, b bench, tok fencing.Token) (seen, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	rec, err := b.store.GetFenced(ctx, tok, record)
	if errors.Is(err, storage.ErrNotFound) {
		return seen{}, nil
	}
	if err != nil {
		return seen{}, err
	}
	return l.parse(rec), nil
}

// write adds one to what was read.
func (l *log) write(ctx context.Context, b bench, tok fencing.Token, writer string, was seen) (seen, error) {
	l.mu.Lock()
	l.next++
	id := writer + "." + strconv.Itoa(l.next)
	w := &write{n: was.n + 1, before: was.id}
	l.writes[id] = w
	l.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_, err := b.store.Put(ctx, tok, record, fmt.Appendf(nil, "%d %s", w.n, id))
	l.mu.Lock()
	defer l.mu.Unlock()
	w.outcome, w.known = fencing.OutcomeOf(err), true
	if err == nil {
		l.acks[writer]++
	}
	return seen{w.n, id}, err
}

// load is writers at work.
type load struct {
	*log
	b         bench
	resources []string
	writers   []string
	stop      context.CancelFunc
	done      sync.WaitGroup
}

// startLoad lets writers take turns on their resource, two on each, until stop.
func (l *log) startLoad(b bench, resources int) *load {
	l.Helper()
	ctx, stop := context.WithCancel(l.Context())
	ld := &load{log: l, b: b, stop: stop}
	for range resources {
		resource := testenv.Unique(l, "load-"+b.name)
		ld.resources = append(ld.resources, resource)
		for k := range 2 {
			writer := fmt.Sprintf("%s-%d", resource, k)
			ld.writers = append(ld.writers, writer)
			ld.done.Go(func() {
				for ctx.Err() == nil {
					if ld.turn(ctx, writer, resource) != nil {
						time.Sleep(rand.N(20 * time.Millisecond)) // the server is down, perhaps
					}
				}
			})
		}
	}
	l.Cleanup(ld.end)
	return ld
}

func (ld *load) end() {
	ld.stop()
	ld.done.Wait()
}

// turn takes the lock, reads, and writes with whatever token it has: a holder that was paused
// does not look at its lease, and the store is to refuse it.
func (ld *load) turn(ctx context.Context, writer, resource string) error {
	lease, err := ld.b.locker.Acquire(ctx, resource)
	if err != nil {
		return err
	}
	defer func() { _ = lease.Release(ctx) }()
	was, err := ld.read(ctx, ld.b, lease.Token())
	if err != nil {
		return err
	}
	_, err = ld.write(ctx, ld.b, lease.Token(), writer, was)
	return err
}

// awaitTurns waits until every writer has had so many more writes acknowledged.
func (ld *load) awaitTurns(n int, within time.Duration, what string) {
	ld.Helper()
	ld.mu.Lock()
	before := map[string]int{}
	for _, w := range ld.writers {
		before[w] = ld.acks[w]
	}
	ld.mu.Unlock()
	start := time.Now()
	testenv.Eventually(ld, within, what+": every writer had its turns", func() bool {
		ld.mu.Lock()
		defer ld.mu.Unlock()
		for _, w := range ld.writers {
			if ld.acks[w] < before[w]+n {
				return false
			}
		}
		return true
	})
	ld.Logf("%s: after %v every writer on the %s lock had %d turns", what, time.Since(start).Round(time.Millisecond), ld.b.name, n)
}

// judge ends the load and follows each record back to its first write. It returns how many
// acknowledged writes are lost.
func (ld *load) judge() (lost int) {
	ld.Helper()
	ld.end()
	ld.mu.Lock()
	defer ld.mu.Unlock()
	on := map[string]bool{}
	for _, resource := range ld.resources {
		rec, err := ld.b.store.Get(ld.Context(), resource, record)
		if err != nil {
			ld.Fatal(err)
		}
		at := ld.parse(rec)
		for id := at.id; id != ""; id = ld.writes[id].before {
			w := ld.writes[id]
			if w == nil {
				ld.Fatalf("%s: the record leads to the write %q, which nobody made", resource, id)
			}
			if w.n != at.n {
				ld.Fatalf("%s: %s is write %d of its record and stands for %d", resource, id, at.n, w.n)
			}
			at.n--
			on[id] = true
			if w.known && (w.outcome == fencing.Refused || w.outcome == fencing.Failed) {
				ld.Errorf("%s: %s was %v, and has an effect", resource, id, w.outcome)
			}
		}
	}
	counts := map[fencing.Outcome]int{}
	for id, w := range ld.writes {
		writer, _, _ := strings.Cut(id, ".")
		if _, ours := ld.find(writer); !ours {
			continue
		}
		counts[w.outcome]++
		if w.outcome == fencing.Applied && !on[id] {
			lost++
		}
	}
	ld.Logf("%s lock: writes by outcome %v, %d of the acknowledged ones are lost", ld.b.name, counts, lost)
	return lost
}

func (ld *load) find(writer string) (int, bool) {
	for i, w := range ld.writers {
		if w == writer {
			return i, true
		}
	}
	return 0, false
}
