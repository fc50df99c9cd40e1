package locking

import (
	"context"
	"sync"
)

// attempts keeps the Grants of one grant id apart: a repeat waits until the first has
// ended. Else both would draw numbers for one hold and outbid each other, and the first,
// cancelled, would clean up what the repeat was just given.
type attempts struct {
	mu sync.Mutex                // guards m; nothing blocks under it
	m  map[attempt]chan struct{} // nil while nobody waits for the attempt's end
}

type attempt struct{ resource, grant string }

// enter waits for its turn, or for ctx to end.
func (a *attempts) enter(ctx context.Context, resource, grant string) (leave func(), err error) {
	key := attempt{resource, grant}
	for {
		a.mu.Lock()
		other, busy := a.m[key]
		if !busy {
			break
		}
		if other == nil {
			other = make(chan struct{})
			a.m[key] = other
		}
		a.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, ended(ctx)
		}
	}
	defer a.mu.Unlock()
	if a.m == nil {
		a.m = map[attempt]chan struct{}{}
	}
	a.m[key] = nil
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if awaited := a.m[key]; awaited != nil {
			close(awaited)
		}
		delete(a.m, key)
	}, nil
}
