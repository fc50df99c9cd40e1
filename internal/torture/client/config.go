// Package client is one client process of a run: seats that take turns, and write down what they do.
//
// A parent starts it (the torture binary with the argument "client") with a Config as JSON on its standard
// input, whose end means stop; it answers on its standard output with a history.Line per line, each
// written in one piece before the call is made. It dies with its parent. On the end of its input it
// lets its seats finish, closes everything, looks for leaks, writes them, and says Done.
package client

import "github.com/fencegate/fencegate/internal/torture/workload"

// Config says what a client process does.
type Config struct {
	Process   int
	Seed      uint64
	Seats     int
	Prefix    string   // of resources: the run's
	Workloads []string // dealt to the seats in turn
	Groups    int      // of each workload; a seat goes from group to group at random
	workload.Options

	Endpoints
}

// Endpoints are where the lock and the store are, as this process reaches them.
type Endpoints struct {
	Lock  string // redis, redlock, postgres, rowlock; with Gateways it is theirs to know
	Store string // redis, postgres
	// Pool bounds the connections of the pools. 0: the drivers' default.
	Pool int

	LockRedis     []string // addresses: one for redis, several for redlock
	StoreRedis    string
	LockPostgres  string // URLs
	StorePostgres string // of workload table, too

	Gateways []string // base URLs; given, everything goes through them but workload table
	APIKey   string
}
