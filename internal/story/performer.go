package story

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/locking"
)

// Performer plays one actor and can be paused.
type Performer interface {
	// Do carries out an action and returns its reply. While the performer is paused it
	// blocks: the action is the first thing to happen once it is woken.
	Do(ctx context.Context, action Action) (Reply, error)
	// Pause stops the performer between two actions; when it returns, nothing of it runs.
	Pause() error
	// Wake lets it go on.
	Wake() error
	// Close ends the performer, paused or not.
	Close() error
}

// process plays an actor in a process of its own, which is stopped and continued by
// signals.
type process struct {
	cmd     *exec.Cmd
	stdin   io.WriteCloser
	replies *json.Decoder
}

// StartProcess plays a role in the process that cmd starts, which must call [Serve] on its
// standard input and output. The process is killed when ctx ends or by Close.
func StartProcess(cmd *exec.Cmd, role Role) (Performer, error) {
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	childAttr(cmd)
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting client %s: %w", role.Name, err)
	}
	p := &process{cmd: cmd, stdin: stdin, replies: json.NewDecoder(stdout)}
	if _, err := p.ask(role); err != nil {
		_ = p.Close()
		return nil, fmt.Errorf("client %s: %w", role.Name, err)
	}
	return p, nil
}

// ask sends one line and reads the answer. Close ends it.
func (p *process) ask(v any) (r Reply, err error) {
	if err = json.NewEncoder(p.stdin).Encode(v); err == nil {
		err = p.replies.Decode(&r)
	}
	if err != nil {
		return Reply{}, fmt.Errorf("its process has ended: %w", err)
	}
	return r, nil
}

func (p *process) Do(_ context.Context, action Action) (Reply, error) { return p.ask(action) }

func (p *process) Pause() error { return stopProcess(p.cmd.Process.Pid) }
func (p *process) Wake() error  { return continueProcess(p.cmd.Process.Pid) }

// Close kills the process: a stopped one would never see that its input has ended.
func (p *process) Close() error {
	_ = p.cmd.Process.Kill()
	err := p.cmd.Wait()
	if _, killed := errors.AsType[*exec.ExitError](err); killed {
		return nil
	}
	return err
}

// simulated plays an actor in this process. A pause is an agreement: no renewal is sent
// and no action begins until it is over.
type simulated struct {
	actor *Actor
	gate  *gate
}

// StartSimulated plays a role without a process, for systems that have no SIGSTOP.
func StartSimulated(role Role) (Performer, error) {
	s := &simulated{gate: &gate{}}
	actor, err := NewActor(role, func(i locking.Issuer) locking.Issuer { return &gated{i, s.gate} })
	if err != nil {
		return nil, err
	}
	s.actor = actor
	return s, nil
}

func (s *simulated) Do(ctx context.Context, action Action) (Reply, error) {
	if err := s.gate.pass(ctx); err != nil {
		return Reply{}, err
	}
	return s.actor.Do(ctx, action), nil
}

func (s *simulated) Pause() error { s.gate.set(true); return nil }
func (s *simulated) Wake() error  { s.gate.set(false); return nil }

func (s *simulated) Close() error {
	s.gate.set(false)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	s.actor.Close(ctx)
	return nil
}

// gate is open or shut.
type gate struct {
	mu   sync.Mutex // guards open
	open chan struct{}
}

func (g *gate) set(shut bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case shut && g.open == nil:
		g.open = make(chan struct{})
	case !shut && g.open != nil:
		close(g.open)
		g.open = nil
	}
}

func (g *gate) pass(ctx context.Context) error {
	g.mu.Lock()
	open := g.open
	g.mu.Unlock()
	if open == nil {
		return nil
	}
	select {
	case <-open:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// gated is an issuer whose renewals wait at the gate.
type gated struct {
	locking.Issuer
	gate *gate
}

func (g *gated) Renew(ctx context.Context, ttl time.Duration, held []fencing.Token) []error {
	if err := g.gate.pass(ctx); err != nil {
		verdicts := make([]error, len(held))
		for i := range verdicts {
			verdicts[i] = fencing.AsFailed(err)
		}
		return verdicts
	}
	return g.Issuer.Renew(ctx, ttl, held)
}
