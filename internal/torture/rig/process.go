package rig

import (
	"context"

	"github.com/fencegate/fencegate/internal/torture/history"
	"github.com/fencegate/fencegate/internal/torture/workload"
)

// Build starts everything but the clients. lines is told of every line of every client, by one goroutine a client.
// After an error nothing is left.
func Build(ctx context.Context, s Spec, lines func(process int, l history.Line)) (*Rig, error) {
	panic("not written yet")
}

// StartClients starts Spec.Processes client processes, and returns when all are ready.
func (r *Rig) StartClients(ctx context.Context) error { panic("not written yet") }

// StopClients lets the clients finish: it closes their inputs, and returns when all have said Done. Who
// does not in time is killed, and named in the error.
func (r *Rig) StopClients(ctx context.Context) error { panic("not written yet") }

// Respawn starts a client in the place of one that was killed.
func (r *Rig) Respawn(ctx context.Context, i int) error { panic("not written yet") }

// Access is the parent's own way to the lock and the store, past links and gateways; through a gateway where
// the lock or the store is in it.
func (r *Rig) Access(ctx context.Context) (workload.Access, error) { panic("not written yet") }

// Leaks looks for what the clients have left in the servers, after StopClients: connections, waiters, locks.
func (r *Rig) Leaks(ctx context.Context) ([]history.Leak, error) { panic("not written yet") }

// Close ends everything.
func (r *Rig) Close() error { panic("not written yet") }

// Try calls f, which uses methods of package testenv, and returns as an error what would have
// ended a test.
func (r *Rig) Try(f func()) error { panic("not written yet") }

// Process is a client process. Its methods are safe for concurrent use.
type Process struct{}

// Pid returns its process id, 0 if it does not run.
func (p *Process) Pid() int { panic("not written yet") }

// Holding returns how many leases its seats have just now, as far as they have written down.
func (p *Process) Holding() int { panic("not written yet") }

// Pause stops it with SIGSTOP, and returns when none of its threads runs.
func (p *Process) Pause() error { panic("not written yet") }

// Resume lets it go on.
func (p *Process) Resume() error { panic("not written yet") }

// Kill kills it with SIGKILL, and returns when its last line was read.
func (p *Process) Kill() error { panic("not written yet") }

// Gateway is a process of the real server, "fencegate serve". Its address stays. Its methods are safe for concurrent use.
type Gateway struct{}

// URL is where it serves.
func (g *Gateway) URL() string { panic("not written yet") }

// Kill kills it with SIGKILL.
func (g *Gateway) Kill() error { panic("not written yet") }

// Pause stops it with SIGSTOP.
func (g *Gateway) Pause() error { panic("not written yet") }

// Resume lets it go on.
func (g *Gateway) Resume() error { panic("not written yet") }

// Stop ends it gracefully, with SIGTERM, and returns when it is gone.
func (g *Gateway) Stop(ctx context.Context) error { panic("not written yet") }

// Start starts it again on its address, and returns when it is ready.
func (g *Gateway) Start(ctx context.Context) error { panic("not written yet") }
