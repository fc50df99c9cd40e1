package main

import (
	"context"
	"time"
)

func redlockRestarted() Exhibit {
	return Exhibit{
		Name:  "redlock-restarted",
		Title: "Redlock with a restarted node",
		Seen:  "Redlock on nodes without appendfsync always, which is how Redis comes",
		Words: []string{
			"The lock is held by whoever has a majority of independent nodes, here two of three.",
			"One of A's two nodes is restarted and has forgotten its vote, so it votes again, and B has a majority, too.",
			"Two majorities share a node, not its memory; the store has seen the newer number by then, and refuses the older holder.",
		},
		Needs: Nodes,
		Thing: Coupon,
		Tell: func(ctx context.Context, s *Scene) error {
			s.TTL = time.Minute // nothing expires in this story
			s.Must(s.redlock(ctx, A, 3, 0, 1, 2), "A gets the lock")
			s.Acquired(ctx, A)
			n := s.Read(ctx, A)

			if err := s.Nodes[1].Restart(ctx); err != nil {
				return err
			}
			s.Bad(Lock, "2: restarted, empty")

			s.Must(s.redlock(ctx, B, 3, 0, 1, 2), "B gets the lock")
			s.Acquired(ctx, B)
			s.Change(ctx, B, -1)

			s.Write(ctx, A, n-1) // A's time has hardly begun
			return nil
		},
	}
}
