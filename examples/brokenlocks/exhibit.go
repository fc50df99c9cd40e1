package main

import (
	"context"

	"github.com/fencegate/fencegate/internal/diagram"
)

// Exhibit is a well-known lock and its well-known failure.
type Exhibit struct {
	Name  string   // for the command line: del-without-owner
	Title string   // DEL without comparing the owner
	Seen  string   // where people meet it: a documentation, a post, a library
	Words []string // three sentences: what the lock does, how it fails, what the fence makes of it
	Needs Needs
	Thing Thing // what breaks: the counter of people online, or the coupon
	// Liveness says that nothing is lost here, but that everything stands still. A fence refuses stale
	// writes and frees no lock, so the second telling shows what does.
	Liveness bool
	// NoFence says that what helps is no fence: the counter of the second telling is a plain one, too.
	NoFence bool
	// Second is the heading of the second telling. Default: that of the same lock with a fenced store.
	Second string
	// Tell tells the story once. It is called twice, with an unfenced and with a fenced store. What goes
	// wrong with the servers is kept by the Scene, whose methods do nothing from then on; an error
	// returned says that the story did not go as it must.
	Tell func(ctx context.Context, s *Scene) error
}

// Needs is which servers an exhibit runs on.
type Needs int

// The needs.
const (
	Redis    Needs = iota // one Redis
	Replica               // a primary and its replica; there is no stand-in for them
	Nodes                 // several independent ones: five
	Clocks                // the same, with clocks that can be moved: of stand-ins, a server's clock is its machine's
	Postgres              // a PostgreSQL server; there is no stand-in for it
)

// Thing is the number that two clients change by reading it and writing what they computed.
type Thing int

// The things.
const (
	Online Thing = iota // how many people are online: 5 at first; a login adds one, a logout takes one away
	Coupon              // how many coupons are left: 10 at first
)

func (t Thing) key() string { return [...]string{"online", "coupon"}[t] }

func (t Thing) start() int64 { return [...]int64{5, 10}[t] }

func (t Thing) unit() string { return [...]string{"online", "left"}[t] }

// Seen is what a telling has come to, from measured values.
type Seen struct {
	Accepted  int    // writes that the store took
	Refused   int    // writes that the fence refused
	Damage    string // what was lost or stands still; empty: nothing
	Diagram   diagram.Diagram
	CounterIs int64 // what the counter says at the end
	CounterOK int64 // what it should say by the writes that were acknowledged
}
