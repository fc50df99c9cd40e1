package client

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/torture/history"
	"github.com/fencegate/fencegate/internal/torture/workload"
)

// breath is the longest rest of a seat after a turn in which nothing was applied: a server that is down must not
// be asked without a pause.
const breath = 20 * time.Millisecond

// sitting is one seat and the groups that it goes to.
type sitting struct {
	seat     *workload.Seat
	workload workload.Workload
	groups   [][]string

	// Used by the seat's goroutine alone.
	applied bool  // something was in this turn
	order   []int // of the groups that are yet to come, until there is a new one
}

// seats returns what the seats do; their Access is not set yet.
func (c *Config) seats(rec *recorder) ([]*sitting, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	var all []workload.Workload
	groups := make([][][]string, len(c.Workloads))
	for k, name := range c.Workloads {
		w, ok := workload.Named(name)
		if !ok {
			return nil, &fencing.InvalidError{What: "workload", Got: strconv.QuoteToASCII(name), Allowed: "one of package workload"}
		}
		all = append(all, w)
		for i := range c.Groups {
			groups[k] = append(groups[k], w.Resources(c.Prefix, i))
		}
	}
	// A process that takes the place of one that was killed has other ids.
	boot := strconv.FormatInt(history.Now()/int64(time.Microsecond), 36)
	list := make([]*sitting, c.Seats)
	for i := range list {
		k := (c.Process*c.Seats + i) % len(all)
		s := &sitting{workload: all[k], groups: groups[k]}
		id := strconv.Itoa(c.Process) + "." + strconv.Itoa(i) + "." + boot + "."
		next := 0
		s.seat = &workload.Seat{
			Process: c.Process, Seat: i, Options: c.Options,
			Rand: rand.New(rand.NewPCG(c.Seed, uint64(c.Process)<<32|uint64(i))), //nolint:gosec // small and positive
			Log: func(op history.Op) {
				s.applied = s.applied || op.Outcome == fencing.Applied.String()
				rec.write(history.Line{Op: &op})
			},
			Next: func() string {
				next++
				return id + strconv.Itoa(next)
			},
		}
		list[i] = s
	}
	return list, nil
}

// next is the group of the next turn: all of them in a random order, and then in another one. So each
// is asked for again soon after a fault. With one drawn out of all each time, the last of them would be
// left out for many turns by chance, and what is measured as recovery would be that.
func (s *sitting) next() []string {
	if len(s.order) == 0 {
		s.order = s.seat.Rand.Perm(len(s.groups))
	}
	g := s.groups[s.order[0]]
	s.order = s.order[1:]
	return g
}

// run takes turns until ctx ends.
func (s *sitting) run(ctx context.Context) {
	for ctx.Err() == nil {
		s.applied = false
		s.workload.Turn(ctx, s.seat, s.next())
		if !s.applied {
			pause(ctx, breath/4+time.Duration(s.seat.Rand.Int64N(int64(breath*3/4))))
		}
	}
}

// crew is the goroutines of the seats.
type crew struct {
	all  sync.WaitGroup
	left atomic.Int64
}

func (c *crew) add(run func()) {
	c.left.Add(1)
	c.all.Go(func() {
		defer c.left.Add(-1)
		run()
	})
}

// wait waits until all have ended, and returns how many have not.
func (c *crew) wait(patience time.Duration) int {
	done := make(chan struct{})
	go func() {
		c.all.Wait()
		close(done)
	}()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-done:
		return 0
	case <-timer.C:
		return int(c.left.Load())
	}
}
