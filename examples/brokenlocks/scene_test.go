package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/diagram"
	"github.com/fencegate/fencegate/locking"
)

// worlds is what a scene stands on: servers and stand-ins.
var worlds = map[string]func(*testing.T, Needs) *World{"server": realWorld, "stand-in": standInWorld}

// eachWorld plays a story of one Redis on each.
func eachWorld(t *testing.T, test func(t *testing.T, play func(fenced bool, tell func(context.Context, *Scene) error) (Seen, error))) {
	t.Helper()
	for name, world := range worlds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := world(t, Redis)
			test(t, func(fenced bool, tell func(context.Context, *Scene) error) (Seen, error) {
				return w.Play(t.Context(), Exhibit{Tell: tell}, fenced)
			})
		})
	}
}

type player = func(fenced bool, tell func(context.Context, *Scene) error) (Seen, error)

// TestForgottenNumbers: a counter that has gone back gives no two clients one number. The store says
// how far it must be, so that it is drawn once more and not a thousand times.
func TestForgottenNumbers(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, play player) {
		t.Helper()
		for _, first := range []int64{33, 1001} {
			seen, err := play(true, func(ctx context.Context, s *Scene) error {
				s.Must(s.Redis[0].Set(ctx, "number", first-1, 0).Err() == nil, "the counter is there")
				s.Acquired(ctx, A)
				a := s.Read(ctx, A)
				s.Must(s.Redis[0].Del(ctx, "number").Err() == nil, "the counter is lost")
				s.Acquired(ctx, B)
				s.Change(ctx, B, -1)
				if s.Write(ctx, A, a+1) {
					t.Error("the late write was accepted")
				}
				return nil
			})
			if err != nil || seen.Refused != 1 || seen.CounterIs != 4 || seen.CounterOK != 4 {
				t.Errorf("got %+v, %v", seen, err)
			}
			text := draw(t, seen)
			for _, want := range []string{
				fmt.Sprintf("raise %d ", first), fmt.Sprintf("raise 33: seen %d already", first), fmt.Sprintf("raise %d ", first+1),
				fmt.Sprintf("write 6 with %d after %d: REFUSED", first, first+1),
			} {
				if strings.Count(text, want) != 1 {
					t.Errorf("the diagram has %q %d times, want once\n%s", want, strings.Count(text, want), text)
				}
			}
			if n := strings.Count(text, "already"); n != 1 {
				t.Errorf("%d raises were refused, want 1", n)
			}
		}
	})
}

// TestLateRead: in the fenced telling not even a read of a late holder is answered.
func TestLateRead(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, play player) {
		t.Helper()
		seen, err := play(true, func(ctx context.Context, s *Scene) error {
			s.Acquired(ctx, A)
			s.Acquired(ctx, B)
			s.Change(ctx, B, +1)
			if got := s.Read(ctx, A); got != 0 {
				t.Errorf("a refused read returned %d", got)
			}
			return nil
		})
		if err != nil || seen.Refused != 1 || !strings.Contains(draw(t, seen), "read with 33 after 34: REFUSED") {
			t.Errorf("got %+v, %v", seen, err)
		}
	})
}

// TestUnfencedIsUnfenced: the first telling's store takes what the second one's refuses.
func TestUnfencedIsUnfenced(t *testing.T) {
	t.Parallel()
	late := func(ctx context.Context, s *Scene) error {
		s.Acquired(ctx, A)
		a := s.Read(ctx, A)
		s.Acquired(ctx, B)
		s.Change(ctx, B, +1)
		s.Write(ctx, A, a+1)
		return nil
	}
	eachWorld(t, func(t *testing.T, play player) {
		t.Helper()
		for _, fenced := range []bool{false, true} {
			seen, err := play(fenced, late)
			if err != nil {
				t.Fatal(err)
			}
			if lost := seen.CounterIs != seen.CounterOK; lost == fenced || (seen.Damage != "") == fenced || (seen.Refused == 1) != fenced {
				t.Errorf("fenced %t: got %+v", fenced, seen)
			}
		}
	})
}

// TestTellingsBeginAlike: nothing of one telling is there in the next.
func TestTellingsBeginAlike(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, play player) {
		t.Helper()
		for range 2 {
			for _, fenced := range []bool{true, false} {
				seen, err := play(fenced, func(ctx context.Context, s *Scene) error {
					if n := s.Redis[0].Exists(ctx, "stray").Val(); n != 0 {
						t.Error("a key of the telling before is there")
					}
					s.Redis[0].Set(ctx, "stray", 1, 0)
					s.Acquired(ctx, A)
					s.Change(ctx, A, +1)
					return nil
				})
				if err != nil || seen.CounterIs != 6 || seen.Accepted != 1 || fenced != strings.Contains(draw(t, seen), "raise 33 ") {
					t.Errorf("fenced %t: got %+v, %v", fenced, seen, err)
				}
			}
		}
	})
}

// TestFailureIsKept: the first thing that goes wrong is what is told of, and ends the telling.
func TestFailureIsKept(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		tell func(ctx context.Context, s *Scene)
		want string
	}{
		"a dead server":           {func(ctx context.Context, s *Scene) { _ = s.Nodes[0].Kill(ctx); s.Client(A).Get(ctx, lockKey) }, "A: GET lock: "},
		"no expiry":               {func(ctx context.Context, s *Scene) { s.Client(A).Set(ctx, lockKey, A, 0); s.Expire(ctx, lockKey) }, "lock would never expire"},
		"a lease, unfenced":       {func(ctx context.Context, s *Scene) { s.Grant(ctx, A) }, "leases in the second telling only"},
		"a release, unfenced":     {func(ctx context.Context, s *Scene) { s.Release(ctx, A) }, "leases in the second telling only"},
		"the counter is gone":     {func(ctx context.Context, s *Scene) { s.Redis[0].Del(ctx, "online"); s.Read(ctx, A) }, "A reads: "},
		"the store is a dead one": {func(ctx context.Context, s *Scene) { _ = s.Nodes[0].Kill(ctx); s.Write(ctx, A, 1) }, "A writes: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := standInWorld(t, Redis).Play(t.Context(), Exhibit{Tell: func(ctx context.Context, s *Scene) error {
				c.tell(ctx, s)
				if ctx.Err() == nil {
					t.Error("the telling goes on")
				}
				s.Must(false, "this is not told")
				s.Wait(ctx, time.Hour)
				s.Expire(ctx, lockKey)
				s.Acquired(ctx, A)
				if s.Read(ctx, A) != 0 || s.Write(ctx, A, 1) {
					t.Error("a call after the failure does something")
				}
				return nil
			}}, false)
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "not told") {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// TestTooSlow: a story that did not go as it must is told again with longer locks, a server's failure
// or an error of its own is not.
func TestTooSlow(t *testing.T) {
	t.Parallel()
	w := standInWorld(t, Redis)
	var ttls []time.Duration
	seen, err := w.Play(t.Context(), Exhibit{Tell: func(ctx context.Context, s *Scene) error {
		ttls = append(ttls, s.TTL)
		s.Must(len(ttls) == 3, "it is the third time")
		s.Change(ctx, A, +1)
		return nil
	}}, false)
	if err != nil || len(ttls) != 3 || ttls[0] != pace || ttls[2] != 4*pace || seen.Accepted != 1 {
		t.Errorf("got %v, %+v, %v", ttls, seen, err)
	}
	tries := 0
	_, err = w.Play(t.Context(), Exhibit{Tell: func(_ context.Context, s *Scene) error {
		tries++
		s.Must(false, "pigs fly")
		return nil
	}}, false)
	if tries != mostTries || errText(err) != "the story needs that pigs fly" {
		t.Errorf("got %v after %d tries", err, tries)
	}
	tries = 0
	mine := errors.New("mine")
	_, err = w.Play(t.Context(), Exhibit{Tell: func(context.Context, *Scene) error { tries++; return mine }}, false)
	if tries != 1 || !errors.Is(err, mine) {
		t.Errorf("got %v after %d tries", err, tries)
	}
}

// TestLostInBetween: a lease that ended before its holder had it, or could renew it, means that the
// machine was slower than the lock's time, and is no failure.
func TestLostInBetween(t *testing.T) {
	t.Parallel()
	tries := 0
	seen, err := standInWorld(t, Redis).Play(t.Context(), Exhibit{Tell: func(ctx context.Context, s *Scene) error {
		tries++
		s.TTL = time.Minute // what is late here is what the issuer says, not the machine
		s.issuer = slow{s.issuer, tries == 1, tries == 2}
		s.Grant(ctx, A)
		s.Renew(ctx, A)
		s.Change(ctx, A, +1)
		return nil
	}}, true)
	if err != nil || tries != 3 || seen.Accepted != 1 {
		t.Errorf("got %+v, %v after %d tries, want it told at the third", seen, err, tries)
	}
}

// slow is an issuer whose answers come too late.
type slow struct {
	locking.Issuer
	grant, renew bool
}

func (i slow) Grant(ctx context.Context, r locking.Request) (locking.Granted, error) {
	if i.grant {
		return locking.Granted{}, locking.ErrLost
	}
	return i.Issuer.Grant(ctx, r)
}

func (i slow) Renew(ctx context.Context, ttl time.Duration, held []fencing.Token) []error {
	if i.renew {
		return []error{locking.ErrLost}
	}
	return i.Issuer.Renew(ctx, ttl, held)
}

// TestExpireWaits: it returns when the key is gone, and not before.
func TestExpireWaits(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, play player) {
		t.Helper()
		_, err := play(false, func(ctx context.Context, s *Scene) error {
			start := time.Now()
			s.Client(A).Set(ctx, lockKey, A, s.TTL)
			s.Expire(ctx, lockKey)
			if took := time.Since(start); took < s.TTL-10*time.Millisecond {
				t.Errorf("it took %v of %v", took, s.TTL)
			}
			if n := s.Redis[0].Exists(ctx, lockKey).Val(); n != 0 {
				t.Error("the key is still there")
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// TestLeasesAreExclusive: of clients that take a lease at once each reads what the one before wrote.
func TestLeasesAreExclusive(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, play player) {
		t.Helper()
		seen, err := play(true, func(ctx context.Context, s *Scene) error {
			s.TTL = time.Minute
			var all sync.WaitGroup
			for _, who := range []string{A, B} {
				all.Go(func() {
					for range 5 {
						s.Grant(ctx, who)
						s.Change(ctx, who, +1)
						s.Release(ctx, who)
					}
				})
			}
			all.Wait()
			return nil
		})
		if err != nil || seen.CounterIs != 15 || seen.Accepted != 10 || seen.Refused != 0 {
			t.Errorf("got %+v, %v", seen, err)
		}
	})
}

// TestClientsAreDrawn: what is drawn is what was sent and answered.
func TestClientsAreDrawn(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, play player) {
		t.Helper()
		seen, err := play(false, func(ctx context.Context, s *Scene) error {
			a, b := s.Client(A), s.Client(B)
			setnx(ctx, a, A)
			setnx(ctx, b, B)
			a.Get(ctx, "none")
			a.PTTL(ctx, lockKey)
			a.PTTL(ctx, "none")
			a.SetNX(ctx, lockKey, A, 300*time.Millisecond)
			a.PExpire(ctx, lockKey, time.Second)
			a.Eval(ctx, release, []string{lockKey}, A)
			a.Eval(ctx, "-- broken\nreturn redis.call('get')", []string{lockKey})
			b.Do(ctx, "GETSET", lockKey, "a value that is too long")
			b.Do(ctx, "GETSET", lockKey, "")
			s.Node(A, 0).Incr(ctx, "n")
			_, _ = a.Pipelined(ctx, func(p redis.Pipeliner) error { p.Del(ctx, "n"); p.Del(ctx, "n"); return nil })
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, it := range seen.Diagram.Items {
			label := it.From + ">" + it.To + " " + it.Label
			if it.Style == diagram.Bad {
				label = it.From + ">" + it.To + " error"
			}
			got = append(got, label)
		}
		want := []string{
			"A>lock SETNX lock A: 1", "B>lock SETNX lock B: 0", "A>lock GET none: nil", "A>lock PTTL lock: -1", "A>lock PTTL none: -2",
			"A>lock SET lock A PX 300 NX: nil", "A>lock PEXPIRE lock 1000: 1", "A>lock release lock A: 1",
			"A>lock broken lock", "lock>A error",
			"B>lock GETSET lock a value that is too long", "lock>B nil",
			"B>lock GETSET lock ", "lock>B a value that is too long",
			"A>lock 1: INCR n: 1", "A>lock DEL n: 1", "A>lock DEL n: 0",
		}
		if g, w := strings.Join(got, "\n"), strings.Join(want, "\n"); g != w {
			t.Errorf("got\n%s\nwant\n%s", g, w)
		}
	})
}

// TestJudge: whatever is not as it must be is seen.
func TestJudge(t *testing.T) {
	t.Parallel()
	first := Seen{Accepted: 2, Damage: "one is lost", CounterIs: 6, CounterOK: 7}
	second := Seen{Accepted: 1, Refused: 1, CounterIs: 6, CounterOK: 6}
	stands := Seen{Accepted: 1, Damage: "it stands still", CounterIs: 6, CounterOK: 6}
	goesOn := Seen{Accepted: 2, CounterIs: 7, CounterOK: 7}
	with := func(s Seen, change func(*Seen)) Seen { change(&s); return s }
	for name, c := range map[string]struct {
		e             Exhibit
		first, second Seen
		ok            bool
	}{
		"as it must be":              {Exhibit{}, first, second, true},
		"no damage":                  {Exhibit{}, with(first, func(s *Seen) { s.Damage = "" }), second, false},
		"damage that is only said":   {Exhibit{}, with(first, func(s *Seen) { s.CounterIs = 7 }), second, false},
		"a fence in the first":       {Exhibit{}, with(first, func(s *Seen) { s.Refused = 1 }), second, false},
		"damage in the second":       {Exhibit{}, first, with(second, func(s *Seen) { s.Damage = "x" }), false},
		"a wrong counter":            {Exhibit{}, first, with(second, func(s *Seen) { s.CounterIs = 5 }), false},
		"nothing refused":            {Exhibit{}, first, with(second, func(s *Seen) { s.Refused = 0 }), false},
		"nothing accepted":           {Exhibit{}, first, with(second, func(s *Seen) { s.Accepted = 0 }), false},
		"it stands still":            {Exhibit{Liveness: true}, stands, goesOn, true},
		"it stands still, twice":     {Exhibit{Liveness: true}, stands, stands, false},
		"it does not":                {Exhibit{Liveness: true}, goesOn, goesOn, false},
		"no fence":                   {Exhibit{NoFence: true}, stands, goesOn, true},
		"nobody says what is damage": {Exhibit{NoFence: true}, goesOn, goesOn, false},
	} {
		if err := judge(c.e, c.first, c.second); (err == nil) != c.ok {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
