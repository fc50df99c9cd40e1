package main

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// takeForTTL takes a lock as the SET page of Redis' documentation shows it.
func takeForTTL(ctx context.Context, s *Scene, who string) {
	s.Must(s.Client(who).SetNX(ctx, lockKey, who, s.TTL).Val(), "%s gets the lock", who)
	s.Acquired(ctx, who)
}

// takeForLong is takeForTTL with a lock that does not end during the story.
func takeForLong(ctx context.Context, s *Scene, who string) {
	s.Must(s.Client(who).SetNX(ctx, lockKey, who, time.Minute).Val(), "%s gets the lock", who)
	s.Acquired(ctx, who)
}

// delWithoutOwner frees a lock without a look whose it is.
func delWithoutOwner() Exhibit {
	return Exhibit{
		Name:  "del-without-owner",
		Title: "DEL without comparing the owner",
		Seen:  "\"finally: redis.delete(key)\" in countless posts; the SET page of the Redis documentation says why not",
		Words: []string{
			"The lock has an expiry, and its holder deletes the key when it is done.",
			"A holder that is done late deletes the lock of its successor, and lets the next one in while that one works.",
			"The store has seen the number of the next one, so the successor is refused, though it did nothing wrong, and has to start over.",
		},
		Tell: func(ctx context.Context, s *Scene) error {
			takeForTTL(ctx, s, A)
			s.Change(ctx, A, +1)
			s.Pause(A)
			s.Expire(ctx, lockKey)
			takeForLong(ctx, s, B)
			seen := s.Read(ctx, B)
			s.Resume(A)
			s.Must(s.Client(A).Del(ctx, lockKey).Val() == 1, "A deletes a lock")
			s.Bad(Lock, "that was B's")
			takeForLong(ctx, s, A)
			s.Change(ctx, A, -1)
			s.Write(ctx, B, seen+1)
			return nil
		},
	}
}

// renewWithoutOwner renews a lock without a look whose it is.
func renewWithoutOwner() Exhibit {
	return Exhibit{
		Name:  "renew-without-owner",
		Title: "Renewal without comparing the owner",
		Seen:  "home-made heartbeats that call EXPIRE in a loop",
		Words: []string{
			"The holder renews its lock with EXPIRE, and works on as long as Redis answers 1.",
			"After a pause the key is another's, Redis answers 1 all the same, and the late holder is sure that it is still in.",
			"The store does not ask what the holder believes: it has seen a higher number.",
		},
		Tell: func(ctx context.Context, s *Scene) error {
			takeForTTL(ctx, s, A)
			seen := s.Read(ctx, A)
			s.Pause(A)
			s.Expire(ctx, lockKey)
			takeForLong(ctx, s, B)
			s.Change(ctx, B, +1)
			s.Resume(A)
			s.Must(s.Client(A).PExpire(ctx, lockKey, s.TTL).Val(), "A renews a lock")
			s.Bad(A, "\"still mine\"")
			s.Write(ctx, A, seen-1)
			return nil
		},
	}
}

// release deletes a lock if it is the caller's: the script of the SET page.
const release = `-- release
if redis.call("get",KEYS[1]) == ARGV[1]
then
    return redis.call("del",KEYS[1])
else
    return 0
end`

// lockObject is a lock as libraries have it, with what it needs to free itself again.
type lockObject struct {
	token string // of whoever has it: of A or of B, where they share the object
}

func (l *lockObject) lock(ctx context.Context, c *redis.Client, token string, ttl time.Duration) bool {
	if !c.SetNX(ctx, lockKey, token, ttl).Val() {
		return false
	}
	l.token = token
	return true
}

func (l *lockObject) unlock(ctx context.Context, c *redis.Client) bool {
	n, err := c.Eval(ctx, release, []string{lockKey}, l.token).Int()
	return err == nil && n == 1
}

// sharedLockObject is a good lock in an object that two threads use.
func sharedLockObject() Exhibit {
	return Exhibit{
		Name:  "shared-lock-object",
		Title: "One lock object shared by two threads",
		Seen:  "redis-py tells this story where it explains why a Lock keeps its token thread-local",
		Words: []string{
			"The lock compares the owner before it deletes, and keeps the owner's secret in a field of the lock object.",
			"Two threads share the object: A is late, B takes the lock and overwrites the field, and A's release shows B's secret and deletes B's lock.",
			"Each thread has a number of its own in its hand, so the fence tells the two apart; a number kept in the shared object would be mixed up like the secret.",
		},
		Tell: func(ctx context.Context, s *Scene) error {
			var l lockObject
			s.Must(l.lock(ctx, s.Client(A), "abc", s.TTL), "A gets the lock")
			s.Acquired(ctx, A)
			s.Change(ctx, A, +1)
			s.Pause(A)
			s.Expire(ctx, lockKey)
			s.Must(l.lock(ctx, s.Client(B), "xyz", time.Minute), "B gets the lock")
			s.Acquired(ctx, B)
			seen := s.Read(ctx, B)
			s.Resume(A)
			s.Must(l.unlock(ctx, s.Client(A)), "A releases a lock")
			s.Bad(Lock, "that was B's")
			s.Must(l.lock(ctx, s.Client(A), "def", time.Minute), "A gets the lock again")
			s.Acquired(ctx, A)
			s.Change(ctx, A, -1)
			s.Write(ctx, B, seen+1)
			return nil
		},
	}
}

// misplaced is release with a bracket in the wrong place: GET is asked for false.
const misplaced = `-- release
if redis.call("get",KEYS[1] == ARGV[1]) then
    return redis.call("del",KEYS[1])
else
    return 0
end`

// misplacedBracket is a release that never releases.
func misplacedBracket() Exhibit {
	return Exhibit{
		Name:     "misplaced-bracket",
		Title:    "A release script with a misplaced bracket",
		Seen:     "release scripts typed from memory, in programs that drop the error of a release",
		Liveness: true,
		Second:   "A lease of fencegate, whose release is tested",
		Words: []string{
			"The release script is to compare the owner, but the comparison has slipped into the argument of GET.",
			"Redis answers with an error that nobody looks at, the lock stays for its whole time, and every next one waits for that.",
			"A fence frees no lock: what helps is a release that is tested, and a lease that ends by itself where it fails.",
		},
		Tell: func(ctx context.Context, s *Scene) error {
			if s.Fenced {
				s.Grant(ctx, A)
				s.Change(ctx, A, +1)
				s.Release(ctx, A)
				s.Grant(ctx, B)
				s.Change(ctx, B, +1)
				s.Release(ctx, B)
				return nil
			}
			takeForLong(ctx, s, A)
			s.Change(ctx, A, +1)
			err := s.Client(A).Eval(ctx, misplaced, []string{lockKey}, A).Err()
			s.Must(err != nil, "the script fails")
			s.Note(A, "\"released\"")
			s.Must(!s.Client(B).SetNX(ctx, lockKey, B, time.Minute).Val(), "B does not get the lock")
			s.Wait(ctx, s.TTL)
			s.Must(!s.Client(B).SetNX(ctx, lockKey, B, time.Minute).Val(), "B still does not get the lock")
			left := s.Client(B).PTTL(ctx, lockKey).Val()
			s.Damage("A is done, and its lock is held for another %v: nobody works meanwhile", left.Truncate(time.Second))
			return nil
		},
	}
}
