package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/fencegate/fencegate/fencing"
)

// signals are those that exec passes on to its command.
type signals struct{ c chan os.Signal }

func (s *signals) stop() { signal.Stop(s.c) }

// came returns a signal that has come already, or nil. Where one has ended ctx, it is on its way.
func (s *signals) came(ctx context.Context) os.Signal {
	select {
	case sig := <-s.c:
		return sig
	default:
	}
	if ctx.Err() == nil {
		return nil
	}
	select {
	case sig := <-s.c:
		return sig
	case <-time.After(time.Second):
		return nil
	}
}

// ended is the error of an exec that a signal ended before its command began; err is what
// became of the lock.
func ended(sig os.Signal, err error) error {
	note := grants.nothing
	if fencing.OutcomeOf(err) == fencing.Unknown {
		note = grants.perhaps
	}
	return statusError{exitSignal + signalNumber(sig), fmt.Errorf("ended by a signal (%v) before the command was started; %s", sig, note)}
}
