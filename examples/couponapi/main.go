// Command couponapi is a coupon and inventory API to copy as a start: create, claim, return,
// stock and receipts over HTTP, on echo. It needs no server: the lock is in its memory, the data
// in an SQLite file; flags move both to Redis or Postgres, and any number of processes may then
// serve the same coupons.
//
//	go run ./examples/couponapi
//	go run ./examples/couponapi load --for 10s --clients 8
//
// # Guarantees
//
// As long as the store keeps what it acknowledged: a coupon is never oversold, left + sold =
// stock, and one Idempotency-Key is one sale at most (per coupon and way to claim), whatever is
// paused, lost or sent twice. The store decides that, not the lock: see claim.go, which is the heart
// of it.
//
// # What is not guaranteed
//
// No store checks the payment. It is called under a key of its own, decisions are written before
// the effects that follow from them, and what is open is settled by sending the same request
// again; a request that nobody sends again may leave a payment without a receipt, which the audit
// lists. The README beside this file has more.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

const usage = `Usage: couponapi [serve] [flags]   serve the API and its page
       couponapi load [flags]      sell under load, stop servers at random, and add up

couponapi serve --help and couponapi load --help list the flags.
`

// run carries out a command line. The exit status is 0, 1 for what went wrong or did not add up,
// or 2 for a command line that makes no sense.
func run(ctx context.Context, args []string, out, errs io.Writer) int {
	command := "serve"
	if len(args) > 0 && (args[0] == "serve" || args[0] == "load") {
		command, args = args[0], args[1:]
	} else if len(args) == 1 && args[0] == "--help" {
		fmt.Fprint(out, usage)
		return 0
	}
	var err error
	if command == "load" {
		err = runLoad(ctx, args, out, errs)
	} else {
		err = runServe(ctx, args, out, errs)
	}
	var bad usageError
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return 0
	case errors.As(err, &bad):
		fmt.Fprintf(errs, "couponapi: %v\n%s", err, usage)
		return 2
	}
	fmt.Fprintf(errs, "couponapi: %v\n", err)
	return 1
}

// usageError says what is wrong with the command line.
type usageError struct{ error }

// parse reads flags; what is left over is an error.
func parse(f *flag.FlagSet, args []string, errs io.Writer) error {
	f.SetOutput(errs)
	if err := f.Parse(args); errors.Is(err, flag.ErrHelp) {
		return err
	} else if err != nil {
		return usageError{err}
	}
	if f.NArg() > 0 {
		return usageError{fmt.Errorf("%q: there are no further arguments", f.Arg(0))}
	}
	return nil
}
