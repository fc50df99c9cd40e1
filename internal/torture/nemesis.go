package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fencegate/fencegate/internal/torture/fault"
	"github.com/fencegate/fencegate/internal/torture/history"
	"github.com/fencegate/fencegate/internal/torture/rig"
)

const (
	warmUp = 700 * time.Millisecond // of undisturbed work before the first fault
	// recoveryTime is how long is waited for everybody to be served again. It is far above what is
	// promised: what takes longer is to be seen, not cut off.
	recoveryTime = 40 * time.Second
	look         = 5 * time.Millisecond
)

// nemesis makes faults, one after another.
type nemesis struct {
	rig    *rig.Rig
	rec    *recorder
	rand   *rand.Rand
	faults []fault.Fault
	groups []string
	doing  func(string)
	notes  []history.Fault
}

// run makes faults until the time is over, and at least each of them once, in a random order. An error says
// that the run is worth nothing.
func (n *nemesis) run(ctx context.Context, end time.Time) error {
	if err := n.everybodyServed(ctx, 0); err != nil {
		return fmt.Errorf("before the first fault: %w", err)
	}
	pause(ctx, warmUp)
	var queue []fault.Fault
	for ctx.Err() == nil {
		if len(queue) == 0 {
			if len(n.notes) > 0 && time.Now().After(end) || len(n.faults) == 0 {
				break
			}
			queue = slices.Clone(n.faults)
			n.rand.Shuffle(len(queue), func(i, j int) { queue[i], queue[j] = queue[j], queue[i] })
		}
		if err := n.crashed(); err != nil {
			return err
		}
		f := queue[0]
		queue = queue[1:]
		if err := n.make(ctx, f); err != nil {
			return err
		}
	}
	n.doing("working")
	pause(ctx, time.Until(end))
	return nil
}

// crashed says which clients have ended on their own: a client that breaks is a finding.
func (n *nemesis) crashed() error {
	var errs []error
	for _, p := range n.rig.Clients {
		errs = append(errs, p.Err())
	}
	return errors.Join(errs...)
}

// make injects a fault, holds it, heals it, and waits until everybody is served again.
func (n *nemesis) make(ctx context.Context, f fault.Fault) error {
	note := history.Fault{Name: f.Name, Loses: f.Loses, From: history.Now()}
	n.doing(f.Name)
	n.rec.fault(note)
	heal, err := f.Inject(ctx, n.rig, n.rand, &note)
	note.Injected = history.Now()
	if err == nil {
		// What is made for the usual leases is to outlast longer ones, too.
		pause(ctx, max(0, n.rig.Spec.Client.TTL-DefaultTTL)+f.Hold/2+time.Duration(n.rand.Int64N(int64(f.Hold)+1)))
	}
	note.Heal = history.Now()
	if heal != nil {
		n.doing("healing " + f.Name)
		// Healed in any case: what was stopped must not stay so because the run is cut short.
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), recoveryTime)
		healErr := heal(clean)
		cancel()
		if healErr != nil {
			err = errors.Join(err, fmt.Errorf("healing %s: %w", f.Name, healErr))
		}
	}
	n.rec.add(note.Ops)
	if err == nil || fault.IsVoid(err) {
		note.To = history.Now() // else it may not be healed
	}
	switch {
	case fault.IsVoid(err):
		note.Void = err.Error()
		n.notes = append(n.notes, note)
		if len(n.faults) == 1 {
			return err
		}
		return nil
	case err != nil:
		note.Cut = true
		n.notes = append(n.notes, note)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the run was cut short: that is why
		}
		return err
	}
	n.doing("recovering")
	if err := n.everybodyServed(ctx, note.To); err == nil {
		_, note.Recovered = n.rec.awaited()
	}
	note.Cut = ctx.Err() != nil
	n.notes = append(n.notes, note)
	return nil
}

// everybodyServed waits until each group has been granted and written since a moment.
func (n *nemesis) everybodyServed(ctx context.Context, since int64) error {
	deadline := time.Now().Add(recoveryTime)
	var clients []int
	for _, p := range n.rig.Clients {
		clients = append(clients, p.ID())
	}
	n.rec.await(since, n.groups, clients)
	for {
		missing, _ := n.rec.awaited()
		if len(missing) == 0 {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("within %v %d were not served, such as %s", recoveryTime, len(missing), missing[0])
		}
		pause(ctx, look)
	}
}

// pause waits, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
