package main

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// lockKey is the key of every lock in Redis.
const lockKey = "lock"

// setnx is the command of that name, which the client library sends as SET NX today.
func setnx(ctx context.Context, c *redis.Client, value string) bool {
	n, err := c.Do(ctx, "SETNX", lockKey, value).Int()
	return err == nil && n == 1
}

// setnxWithoutExpiry is the lock of the first hour: SETNX to take it, DEL to free it.
func setnxWithoutExpiry() Exhibit {
	return Exhibit{
		Name:     "setnx-without-expiry",
		Title:    "SETNX with no expiry: the holder dies",
		Seen:     "first versions everywhere; the page of SETNX in the Redis documentation, under \"Handling deadlocks\"",
		Liveness: true,
		Second:   "A lease of fencegate, which ends by itself, and its fence",
		Words: []string{
			"Whoever can create the key has the lock, and deletes the key when it is done.",
			"A holder that dies deletes nothing, so everybody else waits for ever.",
			"No fence helps against that: what helps is a lease that ends by itself, and since it may end while its holder lives, the lease is what needs the fence.",
		},
		Tell: func(ctx context.Context, s *Scene) error {
			if s.Fenced {
				return tellLease(ctx, s)
			}
			s.Must(setnx(ctx, s.Client(A), A), "A gets the lock")
			s.Acquired(ctx, A)
			s.Change(ctx, A, +1)
			s.Dies(A) // before s.Client(A).Del(ctx, lockKey)
			tryInVain(ctx, s)
			return nil
		},
	}
}

// setnxThenExpire sets the expiry in a command of its own.
func setnxThenExpire() Exhibit {
	return Exhibit{
		Name:     "setnx-then-expire",
		Title:    "SETNX, then EXPIRE: the holder dies in between",
		Seen:     "code from before Redis 2.6.12 (2013), when SET got NX and PX, and what was copied from it since",
		Liveness: true,
		Second:   "A lease of fencegate: the hold and its expiry are one step",
		Words: []string{
			"The lock has an expiry now, set by a second command right after the first.",
			"A holder that dies between the two leaves a key without an expiry, which is the lock of the exhibit before.",
			"The hold and its expiry must be one step, SET NX PX or a script; and from then on a holder can be late, which is the fence's part.",
		},
		Tell: func(ctx context.Context, s *Scene) error {
			if s.Fenced {
				return tellLease(ctx, s)
			}
			s.Must(setnx(ctx, s.Client(A), A), "A gets the lock")
			s.Dies(A) // before s.Client(A).Expire(ctx, lockKey, s.TTL)
			s.Must(s.Client(B).PTTL(ctx, lockKey).Val() == -1, "the lock has no expiry")
			tryInVain(ctx, s)
			return nil
		},
	}
}

// tryInVain lets B ask for a lock with SETNX until it has waited for much longer than any lease.
func tryInVain(ctx context.Context, s *Scene) {
	start, patience := time.Now(), 3*s.TTL
	s.Must(!setnx(ctx, s.Client(B), B), "the lock is held")
	for time.Since(start) < patience && ctx.Err() == nil {
		s.Must(!setnx(ctx, s.Redis[0], B), "the lock stays held")
		s.Wait(ctx, patience/20)
	}
	s.Must(!setnx(ctx, s.Client(B), B), "the lock is still held")
	s.Bad(B, "gives up")
	s.Damage("A is dead and its lock is not: after %v B was still locked out, and the key has no expiry",
		time.Since(start).Round(10*time.Millisecond))
}

// tellLease tells how it goes on with a lease: it ends without its holder, who turns out to be
// alive after all.
func tellLease(ctx context.Context, s *Scene) error {
	s.Grant(ctx, A)
	seen := s.Read(ctx, A)
	s.Pause(A)
	s.Note(B, "is A dead, or slow?")
	s.Grant(ctx, B)
	s.Change(ctx, B, +1)
	s.Release(ctx, B)
	s.Resume(A)
	s.Must(!s.Write(ctx, A, seen+1), "the late write is refused")
	s.Note(A, "starts over")
	s.Grant(ctx, A)
	s.Change(ctx, A, +1)
	s.Release(ctx, A)
	return nil
}

// setnxTimestamp keeps the time at which the lock is over as the value of the key.
func setnxTimestamp() Exhibit {
	return Exhibit{
		Name:  "setnx-timestamp",
		Title: "SETNX with a timestamp: two waiters DEL a lock that timed out",
		Seen:  "the page of SETNX in the Redis documentation, \"Handling deadlocks\", which shows this race",
		Words: []string{
			"The key holds the time at which the lock is over, and who finds it over deletes it and takes the lock.",
			"Two waiters find the same lock over, and the slower one deletes the lock that the faster one has just taken.",
			"Both have the lock, but only one has the highest number, and the fence takes no write of the other.",
		},
		Tell: func(ctx context.Context, s *Scene) error {
			now := time.Now()
			s.Must(s.Redis[0].Set(ctx, lockKey, unix(now.Add(-time.Minute)), 0).Err() == nil, "C held the lock")
			s.Note(Lock, "C held it, and is dead")

			over := func(who string) bool {
				if setnx(ctx, s.Client(who), unix(now.Add(lease))) {
					return true
				}
				until, err := s.Client(who).Get(ctx, lockKey).Int64()
				return err == nil && until < now.Unix()
			}
			take := func(who string) {
				s.Client(who).Del(ctx, lockKey)
				s.Must(setnx(ctx, s.Client(who), unix(now.Add(lease))), "%s gets the lock", who)
				s.Acquired(ctx, who)
			}
			s.Must(over(A) && over(B), "both find the lock over")
			take(A)
			seen := s.Read(ctx, A)
			take(B) // what B found a moment ago is no longer so
			s.Change(ctx, B, +1)
			s.Write(ctx, A, seen-1)
			return nil
		},
	}
}

// lease is how long the locks with timestamps last. Nobody waits for their end.
const lease = 10 * time.Second

// getsetTakeover takes a lock over with GETSET, whose answer tells who was first.
func getsetTakeover() Exhibit {
	return Exhibit{
		Name:  "getset-takeover",
		Title: "GETSET takeover: clocks disagree, and the loser overwrites the winner's expiry",
		Seen:  "the page of SETNX in the Redis documentation, as the answer to the race before; many libraries took it from there",
		Words: []string{
			"GETSET writes the new time and answers with the old one, so that of two waiters only the first finds the lock over.",
			"But the loser has written as well, by its own clock: A's is a minute behind, so the lock that B has just won is over for everybody whose clock is right.",
			"The fence compares numbers and no clocks: B is not the newest any more, and is refused.",
		},
		Tell: func(ctx context.Context, s *Scene) error {
			now := time.Now()
			clock := map[string]time.Time{A: now.Add(-time.Minute), B: now}
			s.Must(s.Redis[0].Set(ctx, lockKey, unix(now.Add(-time.Hour)), 0).Err() == nil, "C held the lock")
			s.Note(Lock, "C held it, and is dead")
			s.Note(A, "clock 60 s behind")

			isOver := func(who string) bool {
				until, err := s.Client(who).Get(ctx, lockKey).Int64()
				return err == nil && until < clock[who].Unix()
			}
			take := func(who string) bool {
				old, err := s.Client(who).GetSet(ctx, lockKey, unix(clock[who].Add(lease))).Int64() //nolint:staticcheck // deprecated, and the exhibit
				return err == nil && old < clock[who].Unix()
			}
			s.Must(isOver(A) && isOver(B), "both find the lock over")
			s.Must(take(B), "B is the first")
			s.Acquired(ctx, B)
			s.Must(!take(A), "A is the second")
			s.Note(A, "was too late")
			seen := s.Read(ctx, B)

			clock[A] = now
			s.Note(A, "clock set right")
			s.Must(isOver(A) && take(A), "B's lock is over by what A wrote")
			s.Acquired(ctx, A)
			s.Change(ctx, A, +1)
			s.Write(ctx, B, seen-1)
			return nil
		},
	}
}

func unix(t time.Time) string { return strconv.FormatInt(t.Unix(), 10) }
