package rig

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"

	"github.com/fencegate/fencegate/internal/torture/client"
	"github.com/fencegate/fencegate/internal/torture/history"
)

// Process is a client process. Its methods are safe for concurrent use.
type Process struct {
	// Config is what it was started with.
	Config client.Config

	*child
	input  io.WriteCloser
	stderr *tail
	ready  chan struct{} // closed when it has said so

	mu      sync.Mutex // guards the fields below
	holding map[int]seatHold
	killed  bool
	closing bool // its input was closed
	said    bool // Done
	notes   string
	bad     error // a line that is none
}

// seatHold is what a seat holds, by resource: a seat that turns to another group has no lease of
// the one before, whether it has released that or left.
type seatHold struct {
	group  string
	tokens map[string]history.Token
}

// spawn starts a client process and hands its lines to the rig's listener.
func (r *Rig) spawn(c client.Config) (*Process, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	config, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	p := &Process{Config: c, stderr: &tail{}, ready: make(chan struct{}), holding: map[int]seatHold{}}
	cmd := exec.Command(exe, "client") //nolint:noctx // it ends with its input, or by Kill
	cmd.Stderr = p.stderr
	if p.input, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if p.child, err = r.forks.start(cmd); err != nil {
		return nil, fmt.Errorf("start client process %d: %w", c.Process, err)
	}
	go p.read(out, r.lines)
	if _, err := p.input.Write(append(config, '\n')); err != nil {
		return nil, errors.Join(fmt.Errorf("start client process %d: %w", c.Process, err), p.Kill(), p.Err())
	}
	return p, nil
}

// read hands on every line until the process has ended. The last one of a killed process may be
// half a line: then its call was not made, or its answer not seen.
func (p *Process) read(out io.Reader, lines func(int, history.Line)) {
	defer close(p.done)
	in := bufio.NewReaderSize(out, 64<<10)
	for {
		text, err := in.ReadBytes('\n')
		if err != nil {
			break
		}
		var l history.Line
		if err := json.Unmarshal(text, &l); err != nil {
			p.mu.Lock()
			p.bad = errors.Join(p.bad, fmt.Errorf("a line of its output is none: %w: %.200q", err, text))
			p.mu.Unlock()
			continue
		}
		p.note(l)
		if lines != nil {
			lines(p.Config.Process, l)
		}
	}
	_, _ = io.Copy(io.Discard, in) // after an error of reading that is not the end
	_ = p.cmd.Wait()               // how it ended is in its state
}

// note keeps what is asked about later.
func (p *Process) note(l history.Line) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case l.Op != nil:
		p.noteOp(l.Op)
	case l.Ready:
		select {
		case <-p.ready:
		default:
			close(p.ready)
		}
	case l.Done:
		p.said = true
	case l.Note != "":
		p.notes = l.Note
	}
}

func (p *Process) noteOp(op *history.Op) {
	switch {
	case op.Kind == history.Acquire && op.Return != 0 && op.Outcome == "applied":
		hold := p.holding[op.Seat]
		if hold.tokens == nil || hold.group != op.Group {
			hold = seatHold{op.Group, map[string]history.Token{}}
		}
		for _, t := range op.Tokens {
			hold.tokens[t.Resource] = t
		}
		p.holding[op.Seat] = hold
	case op.Kind == history.Release: // the call suffices
		for _, t := range op.Tokens {
			if p.holding[op.Seat].tokens[t.Resource] == t {
				delete(p.holding[op.Seat].tokens, t.Resource)
			}
		}
	}
}

// ID returns its number, which is unique in the run and in all its ops.
func (p *Process) ID() int { return p.Config.Process }

// Pid returns its process id, 0 if it does not run.
func (p *Process) Pid() int { return p.pid() }

// Holding returns how many leases its seats have just now, as far as they have written down. A lease that was left
// without a release counts until its seat takes another one.
func (p *Process) Holding() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, hold := range p.holding {
		n += len(hold.tokens)
	}
	return n
}

// Pause stops it with SIGSTOP, and returns when none of its threads runs.
func (p *Process) Pause() error { return p.wrap("pause", p.pause()) }

// Resume lets it go on.
func (p *Process) Resume() error { return p.wrap("resume", p.resume()) }

// Kill kills it with SIGKILL, and returns when its last line was read. To kill one that has ended does nothing.
func (p *Process) Kill() error {
	p.mu.Lock()
	p.killed = true
	p.mu.Unlock()
	return p.wrap("kill", p.kill())
}

// Err says what is wrong with it: it wrote what is no line, or has ended although nobody killed it or let it
// finish. The error has the end of its log.
func (p *Process) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	err := p.bad
	if p.ended() && !p.killed && !p.said {
		err = errors.Join(err, fmt.Errorf("it has ended: %s: %s%s", p.status(), p.notes, p.stderr))
	}
	return p.wrap("follow", err)
}

// awaitReady returns when it has said that it is ready.
func (p *Process) awaitReady(ctx context.Context) error {
	select {
	case <-p.ready:
		return nil
	case <-p.done:
		return errors.Join(fmt.Errorf("client process %d has ended before it was ready", p.ID()), p.Err())
	case <-ctx.Done():
		p.mu.Lock()
		defer p.mu.Unlock()
		return fmt.Errorf("client process %d is not ready: %w: %s%s", p.ID(), context.Cause(ctx), p.notes, p.stderr)
	}
}

// finish lets it come to its end. Who has not when ctx ends is killed.
func (p *Process) finish(ctx context.Context) error {
	p.mu.Lock()
	first, killed := !p.closing, p.killed
	p.closing = true
	p.mu.Unlock()
	if first {
		_ = p.input.Close() // an error says that it has ended
	}
	select {
	case <-p.done:
	case <-ctx.Done():
		err := fmt.Errorf("client process %d does not finish, and was killed: %w%s", p.ID(), context.Cause(ctx), p.stderr)
		return errors.Join(err, p.Kill())
	}
	if killed {
		return nil
	}
	return p.Err()
}

func (p *Process) wrap(verb string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("cannot %s client process %d: %w", verb, p.ID(), err)
}
