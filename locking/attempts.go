package locking

import (
	"context"
	"sync"
)

// attempts keeps the Grants of one grant id apart: a repeat waits until the first has
// ended. Else both would draw numbers for one hold and outbid each other, and the first,
// cancelled, would clean up what the repeat was just given.
type attempts struct {
	mu sync.Mutex // guards m; nothing blocks under it
	m  map[attempt]chan struct{}
}

type attempt struct{ resource, grant string }

// enter waits for its turn, or for ctx to end.
func (a *attempts) enter(ctx context.Context, resource, grant string) (leave func(), err error) {
	key := attempt{resource, grant}
	for {
		a.mu.Lock()
		other := a.m[key]
		if other == nil {
			break
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
	mine := make(chan struct{})
	a.m[key] = mine
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.m, key)
		close(mine)
	}, nil
}
