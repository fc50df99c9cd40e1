package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"

	"github.com/fencegate/fencegate/fencing"
)

// signals are those that exec passes on to its command.
type signals struct{ c chan os.Signal }

func (s *signals) stop() { signal.Stop(s.c) }

// came returns a signal that has come already, or nil: also one that has ended ctx, perhaps before
// these were caught.
func (s *signals) came(ctx context.Context) os.Signal {
	select {
	case sig := <-s.c:
		return sig
	default:
	}
	if e, ok := errors.AsType[arrived](context.Cause(ctx)); ok {
		return e.sig
	}
	return nil
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
