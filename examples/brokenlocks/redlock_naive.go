package main

import (
	"context"
	"time"
)

// nodeTimeout is how long a client of Redlock waits for a node: longer than the lock lasts, as with the
// defaults of most client libraries (seconds) and locks of a few seconds.
func (s *Scene) nodeTimeout() time.Duration { return s.TTL + s.TTL/2 }

// begin sets the clock of the diagram to zero: what came before was the stage being set.
func (s *Scene) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.start = time.Now()
}

// redlock takes the lock as who, the way it is written in many places: SET NX PX on one node after the
// other, in who's order, until a majority of n has said yes. Nothing is reckoned off for the time that
// this took, and no number comes with it.
func (s *Scene) redlock(ctx context.Context, who string, n int, order ...int) bool {
	votes := 0
	for _, node := range order {
		if s.vote(ctx, who, node) {
			votes++
		}
		if votes > n/2 {
			s.Note(who, "%d votes of %d", votes, n)
			return true
		}
	}
	s.Note(who, "%d votes of %d: no", votes, n)
	return false
}

// vote asks one node.
func (s *Scene) vote(ctx context.Context, who string, node int) bool {
	ctx, cancel := context.WithTimeout(ctx, s.nodeTimeout())
	defer cancel()
	return s.Node(who, node).SetNX(ctx, lockKey, who, s.TTL).Val()
}
