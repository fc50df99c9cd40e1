package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// shopFlags tune the leases and the payment stub.
type shopFlags struct {
	ttl, maxHold time.Duration
	delay        time.Duration
	fail         float64
}

func (s *shopFlags) add(f *flag.FlagSet, ttl, maxHold, delay time.Duration, fail float64) {
	f.DurationVar(&s.ttl, "ttl", ttl, "how long a lease outlives its silent holder, 100ms to 1h")
	f.DurationVar(&s.maxHold, "max-hold", maxHold, "when a claim loses its lock at the latest, at least --ttl")
	f.DurationVar(&s.delay, "payment-delay", delay, "how long the payment stub takes, 0 to 5s")
	f.Float64Var(&s.fail, "payment-fail", fail, "the share of payments without an answer, 0 to 0.9")
}

func (s *shopFlags) check() error {
	switch {
	case s.ttl < 100*time.Millisecond || s.ttl > time.Hour || s.ttl%time.Millisecond != 0:
		return usageError{fmt.Errorf("--ttl %v: want 100ms to 1h, in whole milliseconds", s.ttl)}
	case s.maxHold < s.ttl:
		return usageError{fmt.Errorf("--max-hold %v: want at least --ttl, which is %v", s.maxHold, s.ttl)}
	case s.delay < 0 || s.delay > 5*time.Second:
		return usageError{fmt.Errorf("--payment-delay %v: want 0 to 5s", s.delay)}
	case !(s.fail >= 0 && s.fail <= 0.9):
		return usageError{fmt.Errorf("--payment-fail %v: want 0 to 0.9", s.fail)}
	}
	return nil
}

func runServe(ctx context.Context, args []string, out, errs io.Writer) (err error) {
	var back backendFlags
	var tune shopFlags
	f := flag.NewFlagSet("couponapi serve", flag.ContinueOnError)
	listen := f.String("listen", "127.0.0.1:8090", "address to serve on; there are no accounts, so keep it on this machine")
	paymentURL := f.String("payment-url", "", "the payment service (default: a stub in this process, which forgets its payments when it ends)")
	back.add(f)
	tune.add(f, 5*time.Second, 15*time.Second, 300*time.Millisecond, 0)
	if err := parse(f, args, errs); err != nil {
		return err
	}
	if err := tune.check(); err != nil {
		return err
	}
	b, err := back.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	if *paymentURL == "" {
		stub, stop, err := listenAndServe(ctx, "127.0.0.1:0", (&paymentStub{delay: tune.delay, fail: tune.fail}).handler())
		if err != nil {
			return err
		}
		defer stop()
		*paymentURL = stub
	}
	pay := newPayments(*paymentURL)
	defer pay.close()
	s, err := newShop(b, pay, shopOptions{ttl: tune.ttl, maxHold: tune.maxHold, wait: waitTime, label: "couponapi"})
	if err != nil {
		return err
	}
	url, stop, err := listenAndServe(ctx, *listen, newAPI(s, slog.New(slog.NewTextHandler(errs, nil)), maxInFlight))
	if err != nil {
		return err
	}
	defer stop() // before what it needs is closed
	greet(out, url, back)
	<-ctx.Done()
	return nil
}

// waitTime is how long a request waits for a lock before it is told to come again.
const waitTime = 10 * time.Second

func greet(out io.Writer, url string, b backendFlags) {
	fmt.Fprintf(out, `couponapi: %[1]s/ (lock: %[2]s, store: %[3]s)

curl -s --json '{"id": "42", "stock": 10, "buckets": 2}' %[1]s/coupons
curl -s -X POST -H 'Idempotency-Key: order-1' %[1]s/coupons/42/claim
curl -s %[1]s/coupons/42
`, url, b.lock, b.store)
}

// listenAndServe serves h until stop is called, which lets the requests in work end.
func listenAndServe(ctx context.Context, addr string, h http.Handler) (url string, stop func(), err error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return "", nil, err
	}
	srv := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      workTime + 10*time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          log.New(io.Discard, "", 0), // clients that hang up
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(l) // ends by stop only
	}()
	return "http://" + l.Addr().String(), func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), workTime)
		defer cancel()
		if srv.Shutdown(ctx) != nil {
			_ = srv.Close()
		}
		<-done
	}, nil
}
