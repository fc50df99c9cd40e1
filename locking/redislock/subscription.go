package redislock

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/locking"
)

// silence is how long a subscription that hears nothing is believed; then the server is
// asked for a sign of life, and after as long again the connection is replaced.
const silence = 3 * time.Second

// subscription wakes the waiters of one Backend. It listens, with one goroutine and one
// connection, while somebody waits and LookEvery longer, so that a process which waits on
// and off does not connect each time.
type subscription struct {
	client  redis.UniversalClient
	channel string

	// mu guards what follows. wake functions are called under it, so that none is called
	// after it was removed; nothing else that could block is.
	mu      sync.Mutex
	places  map[string]map[string]*place // by resource and grant
	waiting int                          // how many places wait
	stop    context.CancelFunc           // of the goroutine that listens; nil: there is none
	linger  *time.Timer                  // stops it; nil: never started
}

// place is a grant that joins.
type place struct {
	wake  func()
	waits bool // it was told that the lock is held
}

func newSubscription(client redis.UniversalClient, channel string) *subscription {
	return &subscription{client: client, channel: channel, places: map[string]map[string]*place{}}
}

// add lets wake be called for r, in place of what was there, and reports whether r is new.
// It starts nothing.
func (s *subscription) add(r locking.Request, wake func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.places[r.Resource][r.Grant]; p != nil {
		p.wake = wake
		return false
	}
	if s.places[r.Resource] == nil {
		s.places[r.Resource] = map[string]*place{}
	}
	s.places[r.Resource][r.Grant] = &place{wake: wake}
	return true
}

// await sees to it that r, which was added, hears when it is its turn.
func (s *subscription) await(r locking.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.places[r.Resource][r.Grant]
	if p == nil {
		return
	}
	if !p.waits {
		p.waits = true
		s.waiting++
	}
	if s.stop == nil {
		ctx, cancel := context.WithCancel(context.Background())
		s.stop = cancel
		go s.listen(ctx)
	}
}

// remove ends what add began. It does nothing for a request that was not added.
func (s *subscription) remove(r locking.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	grants := s.places[r.Resource]
	p := grants[r.Grant]
	if p == nil {
		return
	}
	if delete(grants, r.Grant); len(grants) == 0 {
		delete(s.places, r.Resource)
	}
	if !p.waits {
		return
	}
	if s.waiting--; s.waiting > 0 {
		return
	}
	if s.linger == nil {
		s.linger = time.AfterFunc(locking.LookEvery, s.rest)
	} else {
		s.linger.Reset(locking.LookEvery)
	}
}

// rest ends the subscription unless somebody waits again.
func (s *subscription) rest() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting == 0 && s.stop != nil {
		s.stop()
		s.stop = nil
	}
}

// wake wakes those who wait for resource.
func (s *subscription) wake(resource string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.places[resource] {
		p.wake()
	}
}

// wakeAll wakes everybody: who listens anew does not know what it has missed.
func (s *subscription) wakeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, grants := range s.places {
		for _, p := range grants {
			p.wake()
		}
	}
}

// listen goes on until ctx ends or the client is closed, whatever else happens: while it
// hears nothing the waiters look by themselves.
func (s *subscription) listen(ctx context.Context) {
	const least = 10 * time.Millisecond
	for pause := least; ; pause = min(2*pause, locking.LookEvery) {
		heard, err := s.subscribe(ctx)
		if errors.Is(err, redis.ErrClosed) {
			return
		}
		if heard {
			pause = least
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

// subscribe listens on one connection until that is over, which is an error, and says
// whether it was ever subscribed. The client would connect again by itself, but without a
// pause, and not where a server has fallen silent.
func (s *subscription) subscribe(ctx context.Context) (heard bool, err error) {
	// Without a channel nothing is sent, so there is something to close before there is
	// something to wait for.
	sub := s.client.Subscribe(ctx)
	defer func() { _ = sub.Close() }()
	// A read does not look at the context.
	defer context.AfterFunc(ctx, func() { _ = sub.Close() })()
	if err := sub.Subscribe(ctx, s.channel); err != nil {
		return false, err
	}
	for asked := false; ; {
		message, err := sub.ReceiveTimeout(ctx, silence)
		timeout, ok := errors.AsType[net.Error](err)
		if ok && timeout.Timeout() && !asked {
			err = sub.Ping(ctx)
			asked = true
		} else if err == nil {
			asked = false
		}
		if err != nil {
			return heard, err
		}
		switch m := message.(type) {
		case *redis.Subscription:
			heard = true
			s.wakeAll()
		case *redis.Message:
			s.wake(m.Payload)
		}
	}
}
