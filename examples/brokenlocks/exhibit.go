package main

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/internal/diagram"
	"github.com/fencegate/fencegate/storage"
)

// Exhibit is a well-known lock and its well-known failure.
type Exhibit struct {
	Name  string   // for the command line: del-without-owner
	Title string   // DEL without comparing the owner
	Seen  string   // where people meet it: a documentation, a post, a library
	Words []string // three sentences: what the lock does, how it fails, what the fence makes of it
	Needs Needs
	// Tell tells the story once. It is called twice, with an unfenced and with a fenced store.
	Tell func(ctx context.Context, s *Scene) error
}

// Needs is which servers an exhibit runs on.
type Needs int

// The needs.
const (
	Redis    Needs = iota // one Redis
	Replica               // a primary and its replica
	Nodes                 // several independent ones: five
	Postgres              // a PostgreSQL server; there is no stand-in for it
)

// Scene is one telling of an exhibit: the servers, a store with a counter in it, and the diagram that
// is drawn of what the clients do. It is safe for concurrent use by the two clients.
type Scene struct {
	Fenced bool
	Redis  []*redis.Client // the nodes; of Replica: the primary, then the replica
	DB     *pgxpool.Pool   // of Postgres

	store   *storage.Store
	diagram diagram.Diagram
	start   time.Time
}

// Seen is what a telling has come to, from measured values.
type Seen struct {
	Accepted  int    // writes that the store took
	Refused   int    // writes that the fence refused
	Damage    string // what was lost or stands still; empty: nothing
	Diagram   diagram.Diagram
	CounterIs int64 // what the counter says at the end
	CounterOK int64 // what it should say by the writes that were acknowledged
}
