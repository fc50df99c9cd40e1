package lockingtest

import (
	"context"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/locking"
)

// Line is a lock store that keeps a line and hands locks over.
type Line interface {
	locking.Waiter
	locking.Transferrer
}

// FlakyLine is Flaky for a lock store that keeps a line.
type FlakyLine struct {
	Flaky
	line Line
}

var _ Line = (*FlakyLine)(nil)

// NewFlakyLine returns a FlakyLine without faults.
func NewFlakyLine(b Line) *FlakyLine { return &FlakyLine{Flaky: Flaky{Backend: b}, line: b} }

// Join implements locking.Waiter.
func (f *FlakyLine) Join(ctx context.Context, r locking.Request, wake func()) (h locking.Hold, err error) {
	err = f.around(ctx, "Join", func() (err error) { h, err = f.line.Join(ctx, r, wake); return err })
	if err != nil {
		return locking.Hold{}, err
	}
	return h, nil
}

// Leave implements locking.Waiter.
func (f *FlakyLine) Leave(ctx context.Context, r locking.Request) error {
	return f.around(ctx, "Leave", func() error { return f.line.Leave(ctx, r) })
}

// MaxStall implements locking.Waiter.
func (f *FlakyLine) MaxStall() time.Duration { return f.line.MaxStall() }

// Transfer implements locking.Transferrer.
func (f *FlakyLine) Transfer(ctx context.Context, from fencing.Token, r locking.Request) (h locking.Hold, err error) {
	err = f.around(ctx, "Transfer", func() (err error) { h, err = f.line.Transfer(ctx, from, r); return err })
	if err != nil {
		return locking.Hold{}, err
	}
	return h, nil
}
