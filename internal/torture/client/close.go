package client

import (
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// closing is for connections that do not come back.
const closing = 5 * time.Second

// kept is connections that nobody gave back.
type kept struct {
	what  string
	count int
}

// close waits until every connection was given back, closes everything, and returns what was not given back.
func (e *ends) close() []kept {
	for _, f := range slices.Backward(e.closers) {
		f()
	}
	end := time.Now().Add(settling)
	left := e.busy()
	for len(left) > 0 && time.Now().Before(end) {
		time.Sleep(5 * time.Millisecond)
		left = e.busy()
	}
	for _, c := range e.clients {
		_ = c.Close()
	}
	for _, p := range e.pools {
		closePool(p)
	}
	return left
}

// busy returns what uses connections now.
func (e *ends) busy() (list []kept) {
	for name, p := range e.pools {
		if n := int(p.Stat().AcquiredConns()); n > 0 {
			list = append(list, kept{"Postgres, " + name, n})
		}
	}
	for addr, c := range e.clients {
		s := c.PoolStats()
		if n := int(s.TotalConns) - int(s.IdleConns); n > 0 {
			list = append(list, kept{"Redis, " + addr, n})
		}
		if n := int(s.PubSubStats.Active); n > 0 {
			list = append(list, kept{"Redis, " + addr + ", subscriptions", n})
		}
	}
	return list
}

// closePool closes a pool, which waits for its connections: not for ever.
func closePool(p *pgxpool.Pool) {
	done := make(chan struct{})
	go func() {
		p.Close()
		close(done)
	}()
	timer := time.NewTimer(closing)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}
