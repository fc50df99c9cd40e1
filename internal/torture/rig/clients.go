package rig

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// How long clients may take where the context says nothing.
const (
	readyTimeout  = 30 * time.Second
	finishTimeout = 30 * time.Second
)

// bounded gives a context without a deadline one.
func bounded(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, d)
}

// StartClients starts Spec.Processes client processes, and returns when all are ready. After an error
// none is left.
func (r *Rig) StartClients(ctx context.Context) error {
	if len(r.Clients) > 0 {
		return errors.New("the clients were started before")
	}
	ctx, cancel := bounded(ctx, readyTimeout)
	defer cancel()
	var err error
	for range r.Spec.Processes {
		p, spawnErr := r.spawnNext()
		if err = spawnErr; err != nil {
			break
		}
		r.Clients = append(r.Clients, p)
	}
	if err == nil {
		err = r.each(func(p *Process) error { return p.awaitReady(ctx) })
	}
	if err != nil {
		err = errors.Join(err, r.each((*Process).Kill))
		r.Clients = nil
	}
	return err
}

// StopClients lets the clients finish: it closes their inputs, and returns when all have said Done. Who
// does not in time (that of ctx, or 30 s) is killed, and named in the error, and so is who has ended on his own. One
// that was killed before is no error.
func (r *Rig) StopClients(ctx context.Context) error {
	ctx, cancel := bounded(ctx, finishTimeout)
	defer cancel()
	return r.each(func(p *Process) error { return p.finish(ctx) })
}

// Respawn starts a client in the place of one that was killed, and returns when it is ready. It is
// a new Process, with the next number and a seed of its own.
func (r *Rig) Respawn(ctx context.Context, i int) error {
	if i < 0 || i >= len(r.Clients) {
		return fmt.Errorf("there is no client %d: want 0 to %d", i, len(r.Clients)-1)
	}
	if old := r.Clients[i]; old.Pid() != 0 {
		return fmt.Errorf("client process %d still runs: kill it first", old.ID())
	}
	ctx, cancel := bounded(ctx, readyTimeout)
	defer cancel()
	p, err := r.spawnNext()
	if err != nil {
		return err
	}
	r.Clients[i] = p
	return p.awaitReady(ctx)
}

func (r *Rig) spawnNext() (*Process, error) {
	c := r.Spec.Client
	c.Process = r.next
	// Far apart for seeds that are near each other.
	c.Seed = r.Spec.Client.Seed ^ (uint64(c.Process)+1)*0x9e3779b97f4a7c15 //nolint:gosec // a number of a process is not negative
	r.next++
	c.Endpoints = r.endpoints()
	return r.spawn(c)
}

// each calls f for all clients at once.
func (r *Rig) each(f func(*Process) error) error {
	errs := make([]error, len(r.Clients))
	var wg sync.WaitGroup
	for i, p := range r.Clients {
		wg.Go(func() { errs[i] = f(p) })
	}
	wg.Wait()
	return errors.Join(errs...)
}
