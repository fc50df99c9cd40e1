//go:build unix

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/locking"
)

// watchedEvent is a part of an event as watch prints it.
type watchedEvent struct{ ID, Kind, Resource, Number string }

// TestWatch has a watcher see what happens, and another one that begins behind what the first has
// seen first.
func TestWatch(t *testing.T) {
	t.Parallel()
	r := newRig(t, fencing.Strict)
	ctx, stop := context.WithCancel(t.Context())
	told := make(chan struct{})
	go func() { // nobody knows when the watcher listens
		defer close(told)
		round := time.NewTicker(50 * time.Millisecond)
		defer round.Stop()
		for ctx.Err() == nil {
			for _, resource := range []string{"other:1", "seen:1"} {
				g, err := r.issuer.Grant(ctx, locking.Request{Resource: resource, Grant: fencing.NewGrant(), TTL: time.Minute})
				if err == nil {
					_, _ = r.issuer.Release(ctx, g.Token)
				}
			}
			select {
			case <-round.C:
			case <-ctx.Done():
			}
		}
	}()
	seen := watchFor(t, 2, stop, r.url) // at once: the gateway remembers 1000 events
	<-told
	for _, e := range seen {
		if e.ID == "" || e.Resource != "seen:1" || e.Kind != "granted" && e.Kind != "released" {
			t.Errorf("an event %+v", e)
		}
	}
	if again := watchFor(t, 1, stop, r.url, "--since-id", seen[0].ID); again[0] != seen[1] {
		t.Errorf("after %+v comes %+v, want %+v", seen[0], again[0], seen[1])
	}
}

// watchFor watches until there were n events, calls then, and interrupts.
func watchFor(t *testing.T, n int, then func(), url string, flags ...string) (seen []watchedEvent) {
	t.Helper()
	args := []string{"watch", "--url", url, "--output", "json", "--prefix", "seen:", "--kind", "granted,released"}
	cmd := command(t, append(args, flags...)...)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for len(seen) < n && lines.Scan() {
		var e watchedEvent
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatalf("%s: %v", lines.Text(), err)
		}
		seen = append(seen, e)
	}
	if len(seen) < n {
		t.Fatalf("the watcher ended after %v", seen)
	}
	then()
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() { // until it closes its end
	}
	_ = cmd.Wait()
	if got := cmd.ProcessState.ExitCode(); got != exitInterrupted {
		t.Errorf("exit status %d, want %d", got, exitInterrupted)
	}
	return seen
}
