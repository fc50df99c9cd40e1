package sim_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"
	"unsafe"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/storage"
)

const (
	ttl        = 20 * cell
	renewEvery = 5 * cell // jitter of half a cell at most
	drift      = cell
	key        = "n"
)

// process is a client: one issuer, one store, and some who work.
type process struct {
	name    string
	resumes int // the cell at which it goes on; net.mu guards it
	links   []*link
	issuer  *locking.LocalIssuer
	store   *storage.Store
}

// seat takes leases and does read-modify-write under them, one after the other.
type seat struct {
	w      *world
	p      *process
	name   string
	phase  time.Duration // within a cell, when it begins something: no two do at once
	locker *locking.Locker
	roll   roller
	writes int
}

// desk is the issuer as a Locker sees it. What a grant waited is cut to whole cells, so that
// leases begin in step with the world: to trust for less is always right.
type desk struct {
	locking.Issuer
	planted planted
}

// Grant implements locking.Issuer.
func (d desk) Grant(ctx context.Context, r locking.Request) (locking.Granted, error) {
	sent := time.Now()
	g, err := d.Issuer.Grant(ctx, r)
	g.Waited = whole(g.Waited)
	if d.planted == trustFromReply {
		g.Waited = time.Since(sent)
	}
	return g, err
}

// newLocker returns a Locker without jitter of its own: each would have another period, and after
// a renewal that failed another pause, which here is over within a cell anyway.
func newLocker(i locking.Issuer) (*locking.Locker, error) {
	l, err := locking.New(i, &locking.Options{TTL: ttl, RenewEvery: renewEvery, Drift: drift, ReleaseTimeout: 2 * time.Second})
	if err != nil {
		return nil, err
	}
	v := reflect.ValueOf(l).Elem()
	*duration(v.FieldByName("period")) = renewEvery
	*duration(v.FieldByName("o").FieldByName("RenewEvery")) = 1
	return l, nil
}

// duration finds a field that is not exported; if it has another name now, this panics.
func duration(v reflect.Value) *time.Duration {
	return (*time.Duration)(unsafe.Pointer(v.UnsafeAddr()))
}

// sleep passes some cells, and goes on at the seat's own moment within one: never in the same
// instant as another seat, nor in that in which a lease ends that it asked for at such a moment.
func (s *seat) sleep(cells int) { s.sleepUntil(s.w.net.now()+cells+1, s.phase) }

// pause is sleep for a holder, whose lease ends at the moment of sleep.
func (s *seat) pause(cells int) { s.sleepUntil(s.w.net.now()+cells+1, s.phase+time.Microsecond) }

func (s *seat) sleepUntil(at int, phase time.Duration) {
	time.Sleep(time.Duration(at)*cell + phase - s.w.net.elapsed())
}

func (s *seat) note(format string, args ...any) {
	s.w.log.add(s.w.net.now(), "%s: %s", s.name, fmt.Sprintf(format, args...))
}

// run works until the faults end.
func (s *seat) run() {
	for s.sleep(s.roll.upTo(8)); s.w.net.now() < s.w.p.heal; s.sleep(s.roll.upTo(8)) {
		resource := fmt.Sprintf("r%d", s.roll.upTo(s.w.p.resources))
		s.turn(resource, s.roll.in(10, 60), s.roll.upTo(3))
	}
}

// turn is one lease, and some updates under it.
func (s *seat) turn(resource string, wait, updates int) bool {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(wait)*cell)
	defer cancel()
	asked := s.w.net.now()
	var lease *locking.Lease
	var err error
	if s.roll.chance(0.15) && wait < 100 {
		lease, err = s.locker.TryAcquire(ctx, resource)
	} else {
		lease, err = s.locker.Acquire(ctx, resource)
	}
	if err != nil {
		s.note("no lease: %v", err)
		return false
	}
	s.note("leases %v", lease.Token())
	s.w.h.leased(lease, asked)
	done := 0
	for range updates {
		if !s.update(lease) {
			break
		}
		done++
	}
	if lease.Context().Err() != nil && errors.Is(context.Cause(lease.Context()), locking.ErrLost) {
		s.note("lost %v", lease.Token())
		s.w.h.count(func(c *counts) { c.lost++ })
	}
	err = lease.Release(context.Background())
	s.note("released %v: %v", lease.Token(), err)
	if err == nil {
		s.w.h.gaveBack(lease.Token())
	}
	return done == updates
}

// update reads and writes once. It reports whether the seat knows what came of it.
func (s *seat) update(lease *locking.Lease) bool {
	ctx, t := context.Background(), lease.Token()
	was, ok := s.read(ctx, t)
	if !ok {
		return false
	}
	s.idle(lease)
	if lease.Context().Err() != nil && s.roll.chance(0.3) {
		return false // it noticed; often it does not look
	}
	s.writes++
	value := fmt.Sprintf("%s-%d", s.name, s.writes)
	o := s.w.h.writing(t, value, was)
	c := storage.Commit{Tokens: []fencing.Token{t}, Ops: []storage.Op{storage.Put(t.Resource, key, []byte(value))}, Key: value}
	known := fencing.Failed // until an attempt is unknown
	for range 1 + s.roll.upTo(4) {
		_, err := s.p.store.Commit(ctx, c)
		out := fencing.OutcomeOf(err)
		s.note("write %s by %v: %v", value, t, out)
		if out == fencing.Applied || out == fencing.Refused {
			s.w.h.told(o, out)
			return out == fencing.Applied
		}
		known = max(known, out)
		s.pause(s.roll.upTo(3))
	}
	s.w.h.told(o, known)
	return false // an unknown write may come yet: nothing can be built upon it
}

func (s *seat) read(ctx context.Context, t fencing.Token) (string, bool) {
	var rec storage.Record
	var err error
	if s.w.planted == noRaise {
		rec, err = s.p.store.Get(ctx, t.Resource, key)
	} else {
		rec, err = s.p.store.GetFenced(ctx, t, key)
	}
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		s.note("read by %v: %v", t, err)
		return "", false
	}
	return string(rec.Value), true
}

// idle is what a holder does between reading and writing: mostly nothing, sometimes it stands
// still for longer than its lease, or its whole process does.
func (s *seat) idle(lease *locking.Lease) {
	switch {
	case s.roll.chance(0.15) && s.w.net.now() < s.w.p.heal:
		stall := s.roll.in(int(ttl/cell), 2*int(ttl/cell))
		if s.roll.chance(0.7) {
			s.note("its process stands still for %d cells under %v", stall, lease.Token())
			s.w.stop(s.p, stall)
		}
		s.pause(stall)
	case s.roll.chance(0.5):
		s.pause(s.roll.upTo(6))
	}
}
