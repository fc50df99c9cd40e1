package main

import (
	"context"
	"time"
)

// pausedHolder is the lock of the Redis documentation, and everything about it is right.
func pausedHolder() Exhibit {
	return Exhibit{
		Name:  "paused-holder",
		Title: "SET NX PX with compare-and-delete: the holder is paused past the TTL",
		Seen:  "the SET page of the Redis documentation; M. Kleppmann, \"How to do distributed locking\" (2016), draws this very pause",
		Thing: Coupon,
		Words: []string{
			"One command takes the lock and sets its expiry, and a script deletes it only for its owner: this is as good as a lock with one Redis gets.",
			"A stands still for longer than its lease, B is let in and hands out a coupon, and A wakes up and writes what it computed from the old number.",
			"No lock can prevent that, because A asks nobody before it writes; the store can, and refuses A, which starts over.",
		},
		Tell: func(ctx context.Context, s *Scene) error {
			takeForTTL(ctx, s, A)
			seen := s.Read(ctx, A)
			s.Pause(A)
			s.Expire(ctx, lockKey)
			takeForLong(ctx, s, B)
			s.Change(ctx, B, -1)
			s.Client(B).Eval(ctx, release, []string{lockKey}, B)
			s.Resume(A)
			if !s.Write(ctx, A, seen-1) {
				s.Note(A, "starts over")
				takeForLong(ctx, s, A)
				s.Change(ctx, A, -1)
			}
			s.Client(A).Eval(ctx, release, []string{lockKey}, A)
			return nil
		},
	}
}

// renew extends a lock if it is the caller's, by which it never extends another's.
const renew = `-- renew
if redis.call("get",KEYS[1]) == ARGV[1] then
    return redis.call("pexpire",KEYS[1],ARGV[2])
else
    return 0
end`

// watchdogStopped renews the lock for as long as the holder lives, from within the holder.
func watchdogStopped() Exhibit {
	return Exhibit{
		Name:  "watchdog-stopped",
		Title: "A watchdog, stopped together with its process",
		Seen:  "the lock watchdog of Redisson and its many relatives",
		Thing: Coupon,
		Words: []string{
			"A watchdog in the holder's process renews the lease every third of its time, so that it lasts as long as the work does.",
			"What stops the holder (a garbage collection, a stopped container, a laptop's lid) stops the watchdog too, and the lease ends while both believe in it.",
			"A watchdog makes the pause rarer and the fence makes it harmless: A's write comes before the watchdog's first look, and is refused.",
		},
		Tell: func(ctx context.Context, s *Scene) error {
			// The watchdog is one more thread of A: it runs when A runs. Its beats are told in order.
			beat := func() int64 {
				n, _ := s.Client(A).Eval(ctx, renew, []string{lockKey}, A, s.TTL.Milliseconds()).Int64()
				return n
			}
			takeForTTL(ctx, s, A)
			seen := s.Read(ctx, A)
			for range 2 {
				s.Wait(ctx, s.TTL/3)
				s.Must(beat() == 1, "the watchdog is in time")
			}
			s.Pause(A)
			s.Expire(ctx, lockKey)
			takeForLong(ctx, s, B)
			s.Change(ctx, B, -1)
			s.Resume(A)
			s.Write(ctx, A, seen-1)
			s.Must(beat() == 0, "the watchdog sees that the lock is lost")
			s.Note(A, "\"lost it\": too late")
			return nil
		},
	}
}

// runawayWatchdog adds to the time that is left, in the place of setting it.
func runawayWatchdog() Exhibit {
	return Exhibit{
		Name:     "runaway-watchdog",
		Title:    "A watchdog that adds its TTL every third of it",
		Seen:     "home-made watchdogs that read \"renew\" as \"give it another TTL\"",
		Liveness: true,
		Second:   "A lease of fencegate, which is renewed to one TTL from now",
		Words: []string{
			"Every third of its TTL the watchdog adds one TTL to what is left, to be on the safe side.",
			"Three are added for each that passes, so the expiry runs away: after an hour of work the lock outlives its holder by two hours.",
			"A fence frees no lock: what helps is a renewal that sets the time to one TTL from now, so that a dead holder's lock ends within one TTL.",
		},
		Tell: func(ctx context.Context, s *Scene) error {
			const beats = 6
			if s.Fenced {
				tellRenewed(ctx, s, beats)
				return nil
			}
			takeForTTL(ctx, s, A)
			s.Change(ctx, A, +1)
			for range beats {
				s.Wait(ctx, s.TTL/3)
				left := s.Redis[0].PTTL(ctx, lockKey).Val()
				s.Must(left > 0, "the watchdog is in time")
				s.Client(A).PExpire(ctx, lockKey, left+s.TTL)
			}
			s.Dies(A)
			held := s.Redis[0].PTTL(ctx, lockKey).Val()
			s.Wait(ctx, 2*s.TTL)
			s.Must(!s.Client(B).SetNX(ctx, lockKey, B, s.TTL).Val(), "B does not get the lock")
			s.Client(B).PTTL(ctx, lockKey)
			s.Damage("the lock is for %v; renewed %d times, it is held for %v after the death of its holder",
				s.TTL, beats, held.Round(10*time.Millisecond))
			return nil
		},
	}
}

// tellRenewed is the same watchdog over a lease of fencegate: however often it was renewed, it ends
// within one TTL of its holder's death.
func tellRenewed(ctx context.Context, s *Scene, beats int) {
	s.Grant(ctx, A)
	s.Change(ctx, A, +1)
	for range beats {
		s.Wait(ctx, s.TTL/3)
		s.Renew(ctx, A)
	}
	s.Dies(A)
	died := time.Now()
	s.Grant(ctx, B)
	waited := time.Since(died)
	s.Must(waited < 2*s.TTL, "B is let in when one TTL is over, and not after %v", waited)
	s.Note(B, "waited %v", waited.Round(10*time.Millisecond))
	s.Change(ctx, B, +1)
	s.Release(ctx, B)
}
