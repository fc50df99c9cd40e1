package client

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/torture/history"
)

const (
	opening   = 60 * time.Second // for servers that are down
	finishing = 20 * time.Second // for seats, after the end of the input
)

// Main is the client process: it reads its Config from in, and writes its lines to out. It returns when
// in has ended, or ctx, and everything is closed. The error says that the Config is wrong, that it could not open
// what the Config names, or that nobody reads its lines; in front of it there is a Note, and no Done behind.
//
// Goroutines that begin while it runs, and that it has not started, count as its leaks: it is for a process of its own.
func Main(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	rec := &recorder{out: out, broken: cancel}
	if err := serve(ctx, cancel, in, rec); err != nil {
		rec.write(history.Line{Note: err.Error()})
		return err
	}
	rec.write(history.Line{Done: true})
	return rec.err()
}

func serve(ctx context.Context, cancel context.CancelCauseFunc, in io.Reader, rec *recorder) error {
	dec := json.NewDecoder(in)
	var c Config
	if err := dec.Decode(&c); err != nil {
		return fmt.Errorf("read the config: %w", err)
	}
	seats, err := c.seats(rec)
	if err != nil {
		return err
	}
	go func() {
		// Its reads end with the input, or with the process.
		_, _ = io.Copy(io.Discard, io.MultiReader(dec.Buffered(), in))
		cancel(nil)
	}()
	before := goroutines()
	ends, err := openPatiently(ctx, &c, rec)
	if err != nil {
		return err
	}
	rec.write(history.Line{Ready: true})
	var running crew
	for _, s := range seats {
		s.seat.Access = ends.access
		running.add(func() { s.run(ctx) })
	}
	<-ctx.Done()
	where := "client " + strconv.Itoa(c.Process)
	if left := running.wait(finishing); left > 0 {
		rec.leak("goroutines", where, left, "seats that do not finish: "+shorten(stacks(goroutines(), before)))
	}
	for _, l := range ends.close() {
		rec.leak("connections", where, l.count, l.what)
	}
	if surplus := settled(before); len(surplus) > 0 {
		rec.leak("goroutines", where, len(surplus), shorten(stacks(surplus, nil)))
	}
	return nil
}

// openPatiently tries until the servers answer, or its time is up.
func openPatiently(ctx context.Context, c *Config, rec *recorder) (*ends, error) {
	end := time.Now().Add(opening)
	said := ""
	for {
		e, err := open(ctx, c, rec.write)
		if err == nil {
			return e, nil
		}
		if final(err) || ctx.Err() != nil || time.Now().After(end) {
			return nil, fmt.Errorf("open: %w", err)
		}
		if err.Error() != said {
			said = err.Error()
			rec.write(history.Line{Note: "opening: " + said})
		}
		pause(ctx, 50*time.Millisecond)
	}
}

func (c *Config) validate() error {
	switch {
	case c.Seats < 1:
		return &fencing.InvalidError{What: "Seats", Got: strconv.Itoa(c.Seats), Allowed: "1 or more"}
	case c.Groups < 1:
		return &fencing.InvalidError{What: "Groups", Got: strconv.Itoa(c.Groups), Allowed: "1 or more"}
	case len(c.Workloads) == 0:
		return &fencing.InvalidError{What: "Workloads", Allowed: "one or more"}
	case c.Call < 10*time.Millisecond || c.Call > time.Minute:
		return &fencing.InvalidError{What: "Call", Got: c.Call.String(), Allowed: "10ms to 1m"}
	case c.Wait <= 0:
		return &fencing.InvalidError{What: "Wait", Got: c.Wait.String(), Allowed: "more than 0"}
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
