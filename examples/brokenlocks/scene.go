package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/diagram"
	"github.com/fencegate/fencegate/locking"
)

// The lanes of every diagram.
const (
	A     = "A"
	B     = "B"
	Lock  = "lock"
	Store = "store"
)

// Scene is one telling of an exhibit: the servers, a store with a counter in it, and the diagram that
// is drawn of what the clients do. It is safe for concurrent use by the two clients.
//
// Its methods need no look at errors: the first failure of a server (not a refusal, which is part of
// the story) is kept, ends the telling's context, and makes every later call do nothing.
type Scene struct {
	Fenced bool            // the second telling
	Redis  []*redis.Client // the nodes, for what is not to be drawn; of Replica: the primary, then the replica
	Nodes  []Node          // the same, for what is done to servers
	DB     *pgxpool.Pool   // of Postgres
	TTL    time.Duration   // how long the locks of this telling last

	thing  Thing
	data   data
	number func(ctx context.Context, who string, above int64) (int64, error)
	cancel context.CancelCauseFunc
	start  time.Time
	ends   []func()
	issuer locking.Issuer // of Grant, in the second telling

	mu      sync.Mutex // guards what is below; no call to a server is made under it
	err     error
	clients map[string]*redis.Client
	tokens  map[string]fencing.Token // by client: what it was granted, in the fenced telling
	read    map[string]int64         // by client: what it read last
	seen    Seen
}

// Acquired says that who's lock has told it "you have it". In the fenced telling it then draws a
// number beside the lock, as with a lock that issues no tokens, and raises it in the store before it
// reads anything.
func (s *Scene) Acquired(ctx context.Context, who string) {
	if s.failed() {
		return
	}
	s.draw(diagram.Item{From: who, Label: "has the lock"})
	s.Number(ctx, who)
}

// Number is the second half of Acquired, for whoever has no lock.
func (s *Scene) Number(ctx context.Context, who string) {
	if s.failed() || !s.checked() {
		return
	}
	var above int64
	for {
		n, err := s.number(ctx, who, above)
		if err != nil {
			s.fail(fmt.Errorf("%s draws a number: %w", who, err))
			return
		}
		t := fencing.Token{Resource: s.thing.key(), Number: n, Grant: fencing.NewGrant()}
		err = s.data.raise(ctx, t)
		if stale, ok := errors.AsType[*fencing.StaleError](err); ok { // the counter has forgotten
			s.draw(diagram.Item{From: who, To: Store, Label: fmt.Sprintf("raise %d: seen %d already", n, stale.Highest), Style: diagram.Bad})
			above = stale.Highest
			continue
		}
		if err != nil {
			s.fail(fmt.Errorf("%s raises %d: %w", who, n, err))
			return
		}
		s.mu.Lock()
		s.tokens[who] = t
		s.mu.Unlock()
		s.draw(diagram.Item{From: who, To: Store, Label: fmt.Sprintf("raise %d", n)})
		return
	}
}

// Read reads the counter as who. In the fenced telling the store may refuse even that; the value is
// then the one of who's last read.
func (s *Scene) Read(ctx context.Context, who string) int64 {
	if s.failed() {
		return 0
	}
	t, last := s.of(who)
	n, err := s.data.read(ctx, t)
	switch {
	case errors.Is(err, fencing.ErrStale):
		s.Refused(who, fmt.Sprintf("read with %d", t.Number)+highest(err))
		return last
	case err != nil:
		s.fail(fmt.Errorf("%s reads: %w", who, err))
		return 0
	}
	s.mu.Lock()
	s.read[who] = n
	s.mu.Unlock()
	s.draw(diagram.Item{From: who, To: Store, Label: fmt.Sprintf("read: %d %s", n, s.thing.unit())})
	return n
}

// Write writes the counter as who and says whether the store took it. What it should say afterwards
// is reckoned from who's last read: a client that read 5 and writes 6 has added one.
func (s *Scene) Write(ctx context.Context, who string, value int64) (accepted bool) {
	if s.failed() {
		return false
	}
	t, last := s.of(who)
	label := fmt.Sprintf("write %d", value)
	if s.checked() {
		label += fmt.Sprintf(" with %d", t.Number)
	}
	err := s.data.write(ctx, t, value)
	switch {
	case errors.Is(err, fencing.ErrStale):
		s.Refused(who, label+highest(err))
		return false
	case err != nil:
		s.fail(fmt.Errorf("%s writes: %w", who, err))
		return false
	}
	s.mu.Lock()
	s.read[who] = value
	s.mu.Unlock()
	s.Accepted(who, label, value-last)
	return true
}

// Change reads the counter as who and writes it with delta added: a login, a logout, a coupon.
func (s *Scene) Change(ctx context.Context, who string, delta int64) (accepted bool) {
	return s.Write(ctx, who, s.Read(ctx, who)+delta)
}

// Accepted counts and draws a write that who has made by itself, in SQL of its own: the store took it,
// and who knows that it added delta. Write does this for its writes.
func (s *Scene) Accepted(who, label string, delta int64) {
	s.mu.Lock()
	s.seen.Accepted++
	s.seen.CounterOK += delta
	s.mu.Unlock()
	s.draw(diagram.Item{From: who, To: Store, Label: label + ": accepted", Style: diagram.Good})
}

// Refused counts and draws a write of who's own that was refused, and changed nothing.
func (s *Scene) Refused(who, label string) {
	s.mu.Lock()
	s.seen.Refused++
	s.mu.Unlock()
	s.draw(diagram.Item{From: who, To: Store, Label: label + ": REFUSED", Style: diagram.Bad})
}

// Must says what the story needs to go on. Where ok is false the telling has failed: a server was
// not what it should be, or the machine slower than the lock's time.
func (s *Scene) Must(ok bool, format string, args ...any) {
	if !ok {
		s.fail(&errStory{"the story needs that " + fmt.Sprintf(format, args...)})
	}
}

// errStory says that a story did not go as it must, which a slower telling may mend.
type errStory struct{ what string }

func (e *errStory) Error() string { return e.what }

// Note draws what who knows or does, at who's lane (a client, Lock or Store).
func (s *Scene) Note(who, format string, args ...any) {
	s.draw(diagram.Item{From: who, Label: fmt.Sprintf(format, args...)})
}

// Bad is Note for what goes wrong.
func (s *Scene) Bad(who, format string, args ...any) {
	s.draw(diagram.Item{From: who, Label: fmt.Sprintf(format, args...), Style: diagram.Bad})
}

// Pause draws that who stands still: a garbage collection, a stopped process, a lost packet. It is
// the story's order that keeps who from doing anything meanwhile.
func (s *Scene) Pause(who string) {
	s.draw(diagram.Item{From: who, Label: "stands still", Stop: true})
}

// Dies draws that who is gone, and will neither release nor renew anything.
func (s *Scene) Dies(who string) {
	s.draw(diagram.Item{From: who, Label: "dies", Style: diagram.Bad, Stop: true})
}

// Resume draws that who goes on.
func (s *Scene) Resume(who string) { s.draw(diagram.Item{From: who, Label: "goes on", Go: true}) }

// Lock draws a call of who to the lock and its answer, for locks whose calls no hook sees: those of
// Client and Node draw themselves.
func (s *Scene) Lock(who, call, answer string) { s.call(who, call, answer, diagram.Plain) }

// Damage says what was lost or stands still. A counter that is wrong at the end says so itself.
func (s *Scene) Damage(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen.Damage = fmt.Sprintf(format, args...)
}

// Wait lets d pass.
func (s *Scene) Wait(ctx context.Context, d time.Duration) {
	if s.failed() {
		return
	}
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// Expire waits until key is gone on every node that answers, and draws it. A key without an expiry is
// a failure of the telling: it would be for ever.
func (s *Scene) Expire(ctx context.Context, key string) {
	for !s.failed() {
		gone := true
		for _, c := range s.Redis {
			switch left, err := c.PTTL(ctx, key).Result(); {
			case err != nil: // it is dead, or the telling is over
			case left == -1:
				s.fail(fmt.Errorf("%s would never expire", key))
				return
			case left != -2:
				gone = false
			}
		}
		if ctx.Err() != nil {
			s.fail(context.Cause(ctx))
		} else if gone {
			s.Note(Lock, "%s expires", key)
			return
		}
		s.Wait(ctx, 5*time.Millisecond)
	}
}

// highest is what the store's refusal says of its mark.
func highest(err error) string {
	if stale, ok := errors.AsType[*fencing.StaleError](err); ok {
		return fmt.Sprintf(" after %d", stale.Highest)
	}
	return ""
}

// checked says that the counter lies in a store that checks tokens.
func (s *Scene) checked() bool {
	_, ok := s.data.(fenced)
	return ok
}

// call draws a call to the lock, and its answer on the same line where there is room for it.
func (s *Scene) call(who, call, answer string, style diagram.Style) {
	room := 44 // between A and the lock
	if who == B {
		room = 24
	}
	if answer == "" || len(call)+2+len(answer) <= room {
		s.draw(diagram.Item{From: who, To: Lock, Label: strings.TrimSuffix(call+": "+answer, ": "), Style: style})
		return
	}
	s.draw(diagram.Item{From: who, To: Lock, Label: call}, diagram.Item{From: Lock, To: who, Label: answer, Style: style})
}

func (s *Scene) draw(items ...diagram.Item) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, it := range items {
		it.At = time.Since(s.start)
		s.seen.Diagram.Items = append(s.seen.Diagram.Items, it)
	}
}

func (s *Scene) of(who string) (fencing.Token, int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tokens[who]
	t.Resource = cmp.Or(t.Resource, s.thing.key())
	return t, s.read[who]
}

func (s *Scene) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
		s.cancel(err)
	}
}

func (s *Scene) failed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err != nil
}
