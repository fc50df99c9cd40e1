package main

import (
	"context"
	"slices"
	"time"
)

func redlockDeadNode() Exhibit {
	return Exhibit{
		Name:  "redlock-dead-node",
		Title: "Redlock asked one node after another, one of them dead",
		Seen:  "Redlock with the default time-outs of a client library, and without the subtraction at the end",
		Words: []string{
			"A asks five nodes in turn and counts three votes, and takes the lock for its own from then on.",
			"One node takes the connection and never answers; while A waits for it longer than the lock lasts, its first votes end, and B gets them.",
			"Asking all at once and taking the time off would have told A that nothing was left; the fence needs no such care, and refuses A's write whatever A believes.",
		},
		Needs: Nodes,
		Thing: Coupon,
		Tell:  tellRedlockDeadNode,
	}
}

func tellRedlockDeadNode(ctx context.Context, s *Scene) error {
	if err := s.Nodes[2].Hang(ctx); err != nil {
		return err
	}
	s.begin()
	s.Bad(Lock, "3: answers nothing any more")
	s.Redis = slices.Delete(slices.Clone(s.Redis), 2, 3) // whoever draws a number has noticed

	sent := time.Now()
	s.Must(s.redlock(ctx, A, 5, 0, 1, 2, 3, 4), "A gets the lock")
	s.Bad(A, "1, 2: over %v ago", (time.Since(sent) - s.TTL).Round(10*time.Millisecond))
	s.Acquired(ctx, A)
	n := s.Read(ctx, A)

	// B begins elsewhere, as clients do that take the nodes in a random order.
	s.Must(s.redlock(ctx, B, 5, 4, 0, 1, 2, 3), "B gets the lock")
	s.Acquired(ctx, B)
	s.Change(ctx, B, -1)

	s.Write(ctx, A, n-1)
	return nil
}
