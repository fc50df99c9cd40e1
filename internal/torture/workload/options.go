package workload

import "time"

// Options are how the seats behave. They reach the clients as JSON.
type Options struct {
	TTL  time.Duration // of locks
	Wait time.Duration // for a lock
	Call time.Duration // a call's timeout
	Hold time.Duration // about how long a turn works between its read and its write
	Late float64       // the share of turns that write again after the end of their lease, 0..1
	Odd  float64       // the share of turns that forge, replay, re-enter, renew what was released, or leave without a release
}
