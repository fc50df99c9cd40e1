package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"time"
)

// process is a server that has been started. Its methods may be called on nil, and after its end.
type process struct {
	cmd  *exec.Cmd
	log  bytes.Buffer  // to be read after the end
	done chan struct{} // closed when it has ended
}

func launch(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &p.log, &p.log
	cmd.WaitDelay = time.Second // for children that keep the pipe of its log
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.done)
		_ = cmd.Wait() // how it ends is its caller's doing
	}()
	return p, nil
}

// await waits until the server answers. One that does not is killed.
func (p *process) await(ctx context.Context, answers func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := answers(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
			continue
		case <-p.done:
		case <-ctx.Done():
			p.kill()
		}
		return fmt.Errorf("%s did not come up: %w\n%s", p.cmd.Path, err, bytes.TrimSpace(p.log.Bytes()))
	}
}

// kill ends the server from one instant to the next.
func (p *process) kill() {
	if p != nil {
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// stop asks the server to end, as one must that has children of its own.
func (p *process) stop() {
	if p == nil {
		return
	}
	_ = p.cmd.Process.Signal(os.Interrupt)
	select {
	case <-p.done:
	case <-time.After(5 * time.Second):
		p.kill()
	}
}
