package client

import (
	"context"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/torture/history"
	"github.com/fencegate/fencegate/locking"
)

// drawing is a lock store that writes down every number that it draws, and when: what the stores make of it
// comes later, and would hide a lock store that grants a number twice.
type drawing struct {
	locking.Backend
	process int
	write   func(history.Line)
}

// watched wraps a lock store, and keeps what it offers besides.
func watched(b locking.Backend, process int, write func(history.Line)) locking.Backend {
	d := drawing{b, process, write}
	w, waits := b.(locking.Waiter)
	t, transfers := b.(locking.Transferrer)
	switch {
	case waits && transfers:
		return struct {
			drawingWaiter
			drawingTransferrer
		}{drawingWaiter{d, w}, drawingTransferrer{t, d}}
	case waits:
		return drawingWaiter{d, w}
	}
	return d
}

func (d drawing) note(call int64, h locking.Hold, err error) (locking.Hold, error) {
	if err == nil && h.Drawn {
		d.write(history.Line{Draw: &history.Draw{Process: d.process, Call: call, Return: history.Now(), Token: history.TokenOf(h.Token)}})
	}
	return h, err
}

// TryAcquire implements locking.Backend.
func (d drawing) TryAcquire(ctx context.Context, r locking.Request) (locking.Hold, error) {
	call := history.Now()
	h, err := d.Backend.TryAcquire(ctx, r)
	return d.note(call, h, err)
}

type drawingWaiter struct {
	drawing
	w locking.Waiter
}

// Join implements locking.Waiter.
func (d drawingWaiter) Join(ctx context.Context, r locking.Request, wake func()) (locking.Hold, error) {
	call := history.Now()
	h, err := d.w.Join(ctx, r, wake)
	return d.note(call, h, err)
}

// Leave implements locking.Waiter.
func (d drawingWaiter) Leave(ctx context.Context, r locking.Request) error { return d.w.Leave(ctx, r) }

// MaxStall implements locking.Waiter.
func (d drawingWaiter) MaxStall() time.Duration { return d.w.MaxStall() }

type drawingTransferrer struct {
	locking.Transferrer
	d drawing
}

// Transfer implements locking.Transferrer.
func (t drawingTransferrer) Transfer(ctx context.Context, from fencing.Token, r locking.Request) (locking.Hold, error) {
	call := history.Now()
	h, err := t.Transferrer.Transfer(ctx, from, r)
	return t.d.note(call, h, err)
}
