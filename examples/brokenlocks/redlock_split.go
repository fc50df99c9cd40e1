package main

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/redis/go-redis/v9"
)

// splitRounds is how often the first telling tries.
const splitRounds = 4

func redlockSplitVote() Exhibit {
	return Exhibit{
		Name:  "redlock-split-vote",
		Title: "Redlock's split vote",
		Seen:  "Redlock clients that retry after a fixed delay, or keep their votes until these expire",
		Words: []string{
			"One node of five is dead, which is what five are for, and whoever has three of the others has the lock.",
			"A and B ask at the same moment and get two each, and since both come back after the same pause, they get two each again, for as long as they keep in step (here the story keeps them so).",
			"What helps is to give the votes back at once and to come back after a random pause: whoever draws the shorter one is through before the other begins (locking/redlock does so, and here it does on real servers; the fence has nothing to refuse).",
		},
		Needs:    Nodes,
		Thing:    Online,
		Liveness: true,
		Second:   "A random pause, and a fenced store",
		Tell: func(ctx context.Context, s *Scene) error {
			if _, pretended := s.Nodes[0].(*standIn); s.Fenced && !pretended {
				return tellBackOff(ctx, s)
			}
			return tellSplitVote(ctx, s)
		},
	}
}

func tellSplitVote(ctx context.Context, s *Scene) error {
	if err := s.Nodes[4].Kill(ctx); err != nil {
		return err
	}
	s.TTL = time.Minute // nothing expires in this story
	s.begin()
	s.Bad(Lock, "5: dead")
	s.Redis = s.Redis[:4] // nor does anybody ask it for a number
	s.split(ctx, s.Node)
	if s.Fenced {
		tellRandomPause(ctx, s)
		return nil
	}
	for range splitRounds - 1 {
		s.Note(A, "again in %v", fixedPause)
		s.Note(B, "again in %v", fixedPause)
		s.Wait(ctx, fixedPause)
		// As before, and not drawn again.
		s.split(ctx, func(_ string, node int) *redis.Client { return s.Redis[node] })
	}
	s.Damage("after %d rounds nobody has the lock, and nobody ever had", splitRounds)
	return nil
}

const fixedPause = 20 * time.Millisecond

// split is one round of A and B, who keep time: A begins with node 1, B with node 4, and each asks one
// node while the other asks one. Both give back what they got.
func (s *Scene) split(ctx context.Context, client func(who string, node int) *redis.Client) {
	votes := map[string][]int{}
	for turn := range 4 {
		for _, v := range []struct {
			who  string
			node int
		}{{A, turn}, {B, 3 - turn}} {
			if client(v.who, v.node).SetNX(ctx, lockKey, v.who, s.TTL).Val() {
				votes[v.who] = append(votes[v.who], v.node)
			}
		}
	}
	for _, who := range []string{A, B} {
		s.Must(len(votes[who]) == 2, "%s has two votes", who)
		s.Bad(who, "2 votes of 5: no")
		s.giveBack(ctx, who, votes[who]...)
	}
}

// giveBack deletes who's votes. A node that cannot be asked is not: its vote ends by itself.
func (s *Scene) giveBack(ctx context.Context, who string, nodes ...int) {
	for _, node := range nodes {
		s.Redis[node].Eval(ctx, release, []string{lockKey}, who)
	}
}

// tellRandomPause goes on with pauses that are not alike.
func tellRandomPause(ctx context.Context, s *Scene) {
	pause := map[string]time.Duration{}
	for _, who := range []string{A, B} {
		pause[who] = rand.N(50*time.Millisecond) + time.Millisecond
		s.Note(who, "again in %v", pause[who].Round(time.Millisecond))
	}
	first, then := A, B
	if pause[B] < pause[A] {
		first, then = B, A
	}
	s.Wait(ctx, pause[first])
	s.Must(s.redlock(ctx, first, 5, 0, 1, 2, 3), "%s gets the lock", first)
	s.Acquired(ctx, first)
	s.Change(ctx, first, +1)
	s.giveBack(ctx, first, 0, 1, 2)
	s.Note(first, "gives back")

	s.Wait(ctx, pause[then]-pause[first])
	s.Must(s.redlock(ctx, then, 5, 0, 1, 2, 3), "%s gets the lock", then)
	s.Acquired(ctx, then)
	s.Change(ctx, then, +1)
}
