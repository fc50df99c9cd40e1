package pgstore

import (
	"context"
	"maps"
	"time"
)

// sighting is a transaction that held a mark while somebody waited for it.
type sighting struct {
	id          string
	first, last time.Time // when it was seen
}

// forgotten is when a sighting is dropped: whoever waited has given up long ago.
const forgotten = time.Hour

// watch looks now and then, beside a change that takes unusually long, who holds the mark, and
// ends the holder that was seen with it for longer than Options.MaxIdle. The server ends idle
// ones by itself; but it does not call idle a transaction whose client has stopped reading
// in the middle of an answer, or sending in the middle of a batch.
//
// The change is not interrupted for this: it would lose its place in the queue. done ends the
// watch, and returns in words who was in the way.
func (b *Backend) watch(ctx context.Context, resource string) (done func() string) {
	ctx, cancel := context.WithCancel(ctx)
	pace := min(time.Second, max(b.o.MaxIdle/4, 10*time.Millisecond))
	holder := "a transaction"
	ended := make(chan struct{})
	timer := time.AfterFunc(pace, func() {
		defer close(ended)
		tick := time.NewTicker(pace)
		defer tick.Stop()
		for {
			if name := b.look(ctx, resource); name != "" {
				holder = name
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	})
	return func() string {
		cancel()
		if !timer.Stop() {
			<-ended
		}
		return holder
	}
}

// look returns in words who holds a mark that others wait for, and ends it if its time is up;
// nothing if nobody waits, or if it could not look.
func (b *Backend) look(ctx context.Context, resource string) string {
	var id, name, verdict string
	if err := b.pool.QueryRow(ctx, holderSQL, resource, b.overdue(resource)).Scan(&id, &name, &verdict); err != nil {
		return ""
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	s := b.seen[resource]
	if s.id != id {
		s = sighting{id: id, first: now}
	}
	s.last = now
	b.seen[resource] = s
	switch verdict {
	case "refused":
		return name + ", which the owner of the schema may not end,"
	case "waits":
		return name + ", which waits for something itself,"
	}
	return name
}

// overdue returns the id of the transaction that has held a mark for too long. The first
// sighting is kept over calls: a caller with little time comes back.
func (b *Backend) overdue(resource string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(b.seen, func(_ string, s sighting) bool { return now.Sub(s.last) > forgotten })
	s := b.seen[resource]
	if now.Sub(s.first) <= b.o.MaxIdle {
		return ""
	}
	return s.id
}
