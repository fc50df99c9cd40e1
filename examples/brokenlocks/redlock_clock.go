package main

import (
	"context"
	"fmt"
	"time"
)

func redlockClockJump() Exhibit {
	return Exhibit{
		Name:  "redlock-clock-jump",
		Title: "Redlock and a clock jump",
		Seen:  "Redlock where an operator, NTP or a resumed virtual machine sets a clock; Redis reckons expiry by the wall clock",
		Words: []string{
			"Each node forgets the lock when its own clock says so.",
			"The clock of one of A's two nodes jumps ahead, its vote is over at once, and B has a majority while A's time has hardly begun (the nodes are stand-ins in this process: a real server's clock is that of its machine).",
			"A number is not a time: no clock can make 33 the newer one.",
		},
		Needs: Clocks,
		Thing: Online,
		Tell: func(ctx context.Context, s *Scene) error {
			s.TTL = time.Minute
			s.Must(s.redlock(ctx, A, 3, 0, 1, 2), "A gets the lock")
			s.Acquired(ctx, A)
			n := s.Read(ctx, A)

			node, ok := s.Nodes[1].(Clock)
			if !ok {
				return fmt.Errorf("the clock of %s cannot be moved", s.Nodes[1].Addr())
			}
			node.Jump(s.TTL)
			s.Bad(Lock, "2: its clock jumps by %v", s.TTL)

			s.Must(s.redlock(ctx, B, 3, 0, 1, 2), "B gets the lock")
			s.Acquired(ctx, B)
			s.Change(ctx, B, -1)

			s.Write(ctx, A, n+1)
			return nil
		},
	}
}
