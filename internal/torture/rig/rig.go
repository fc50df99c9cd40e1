// Package rig is what a run takes place on: servers, gateways, client processes and the links
// between them.
//
// Methods that change servers return when that is done. A Rig is for one goroutine, but for what
// says otherwise. Whoever builds rigs calls testenv.Close before the program ends.
//
// # Addresses
//
// Each server is known by a name, which is that of its link: "lock", or "lock-0", "lock-1" ...
// with redlock; "store"; "server" where lock and store are one server; "gateway-0" ...
// Clients and gateways reach a server by its link, which leads to wherever Switch says last.
//
// # Errors
//
// What this machine cannot do is a *CannotError: a server that is not installed, a file system
// that only root may mount.
package rig

import (
	"sync"

	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/internal/torture/client"
	"github.com/fencegate/fencegate/internal/torture/history"
	"github.com/fencegate/fencegate/internal/torture/link"
)

// Standby says whether a server has a replica.
type Standby string

// The kinds of standbys.
const (
	NoStandby Standby = ""
	Async     Standby = "async"
	Sync      Standby = "sync" // Postgres only: commits wait for it
)

// Spec says what to build. Faults change it before it is built, see fault.Fault.
type Spec struct {
	Lock      string // memory, redis, redlock, postgres, rowlock; memory needs Gateways
	Store     string // memory, sqlite, redis, postgres; memory and sqlite need Gateways
	Gateways  int    // 0: the clients are at the lock and the store themselves; 1 where Lock or Store is in the gateway
	Server    string // the fencegate binary, for gateways
	OldServer string // another one, of an earlier version, for the second gateway; empty: the same

	Processes int
	Client    client.Config // what all processes have in common; an empty Prefix is made up, Seed is where theirs come from

	Links                     bool // clients (or gateways) reach the servers through links; else directly, which is faster
	GatewayLinks              bool // clients reach the gateways through links
	Nodes                     int  // of redlock. Default: 5
	LockStandby, StoreStandby Standby
	RedisArgs                 []string // more arguments for all Redis servers
	RedisEnv                  []string
	PostgresSettings          []string
	PostgresEnv               []string
	Volatile                  bool  // Redis keeps nothing on disk: a killed one is empty. Default: everything is kept (appendfsync always)
	SmallDisk                 int64 // the store's data lies on a file system of so many bytes; 0: on the usual one. Needs root; Postgres needs 150 MB to begin with

	// Servers of the user's own: nothing is started for them. In Postgres the run has a database of its own,
	// and in Redis keys of resources that begin with the run's prefix.
	RedisURL, PostgresURL string
}

// Rig is what was built.
type Rig struct {
	Spec Spec

	// The private servers; nil where there are none. Lock and store may be one and the same server.
	LockRedis                           []*testenv.Redis
	StoreRedis                          *testenv.Redis
	LockPostgres, StorePostgres         *testenv.Postgres
	LockRedisStandby, StoreRedisStandby *testenv.Redis
	PostgresStandby                     *testenv.Postgres // of lock and store both: they are in one database

	// The links by what they lead to, see Addresses above. Use Switch to move them.
	Links map[string]*link.Link

	Gateways []*Gateway
	Clients  []*Process

	tb    *bench
	forks *forker
	lines func(process int, l history.Line)
	next  int // the number of the next process

	mu     sync.Mutex        // guards to: Switch may be called while Access is
	to     map[string]string // the servers' own addresses by name
	access *access           // the parent's, nil until it is asked for

	redis    *userRedis // the user's own; nil without
	postgres *database  // nil without
	closed   bool
}

// CannotError says what this machine cannot do.
type CannotError struct{ Why string }

// Error implements error.
func (e *CannotError) Error() string { return e.Why }
