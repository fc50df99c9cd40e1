package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"time"
)

// load sells under load and adds up: several API processes serve one coupon, clients buy and
// return, and the processes, which are what holds leases, are stopped and continued at random, for
// longer than a lease lasts.
type load struct {
	run              time.Duration
	clients, servers int
	stock, buckets   int
	back             backendFlags
	tune             shopFlags
}

func (l *load) parse(args []string, errs io.Writer) error {
	f := flag.NewFlagSet("couponapi load", flag.ContinueOnError)
	f.DurationVar(&l.run, "for", 10*time.Second, "how long to sell, 1s to 1h")
	f.IntVar(&l.clients, "clients", 8, "clients that buy and return at the same time, 1 to 256")
	f.IntVar(&l.servers, "servers", 3, "API processes, 1 to 16; one, if the lock or the data are in it")
	f.IntVar(&l.stock, "stock", 100, "how many coupons there are, 1 to 1000000")
	f.IntVar(&l.buckets, "buckets", 4, "into how many buckets they are split, 1 to 64")
	l.back.add(f)
	l.tune.add(f, 500*time.Millisecond, 5*time.Second, 100*time.Millisecond, 0.05)
	if err := parse(f, args, errs); err != nil {
		return err
	}
	chosen := false
	f.Visit(func(fl *flag.Flag) { chosen = chosen || fl.Name == "lock" || fl.Name == "store" })
	if !chosen { // several processes need a server that all of them see
		l.back.lock, l.back.store = "redis", "redis"
	}
	for _, v := range []struct {
		name           string
		got, low, high int
	}{
		{"clients", l.clients, 1, 256},
		{"servers", l.servers, 1, 16},
		{"stock", l.stock, 1, maxStock},
		{"buckets", l.buckets, 1, min(maxBuckets, l.stock)},
	} {
		if v.got < v.low || v.got > v.high {
			return usageError{fmt.Errorf("--%s %d: want %d to %d", v.name, v.got, v.low, v.high)}
		}
	}
	if l.run < time.Second || l.run > time.Hour {
		return usageError{fmt.Errorf("--for %v: want 1s to 1h", l.run)}
	}
	if l.back.embedded() {
		l.servers = 1
	}
	return l.tune.check()
}

// errWrong says that the run did not add up; what exactly is in the report.
var errWrong = errors.New("it does not add up")

func runLoad(ctx context.Context, args []string, out, errs io.Writer) error {
	var l load
	if err := l.parse(args, errs); err != nil {
		return err
	}
	if l.back.uses("redis") && l.back.redisURL == "" {
		url, stop, err := privateRedis(ctx)
		if err != nil {
			return err
		}
		defer stop()
		l.back.redisURL = url
	}
	if err := l.back.check(); err != nil {
		return err
	}
	// The payment service is not a part of what is stopped: it is somebody else's.
	stubURL, stop, err := listenAndServe(ctx, "127.0.0.1:0", (&paymentStub{delay: l.tune.delay, fail: l.tune.fail}).handler())
	if err != nil {
		return err
	}
	defer stop()
	fleet, err := startFleet(ctx, &l, stubURL)
	if err != nil {
		return err
	}
	defer fleet.end()

	cp := coupon{ID: "load-" + newKey(), Stock: int64(l.stock), Buckets: l.buckets, Price: 500}
	buyers := newBuyers(cp, fleet.urls(), l.tune.ttl)
	defer buyers.close()
	if err := buyers.create(ctx); err != nil {
		return err
	}
	if !canStop {
		fmt.Fprintln(out, "this system has no SIGSTOP: nothing is stopped")
	}
	fmt.Fprintf(out, "%d clients buy for %v from %d API processes (lock: %s, store: %s), a lease lasts %v\n\n",
		l.clients, l.run, l.servers, l.back.lock, l.back.store, l.tune.ttl)
	selling, enough := context.WithTimeout(ctx, l.run)
	defer enough()
	stops := make(chan int, 1)
	go func() { stops <- fleet.stopAtRandom(selling, l.tune.ttl) }()
	buyers.buy(selling, l.clients)
	stopped := <-stops // and all are continued

	if err := ctx.Err(); err != nil {
		return err
	}
	return buyers.report(ctx, out, stopped)
}
