// Package rig is what a run takes place on: servers, gateways, client processes and the links
// between them.
//
// Methods that change servers return when that is done. A Rig is for one goroutine, but for what
// says otherwise.
package rig

import (
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
	Client    client.Config // what all processes have in common

	Links                     bool // clients (or gateways) reach the servers through links; else directly, which is faster
	GatewayLinks              bool // clients reach the gateways through links
	Nodes                     int  // of redlock. Default: 5
	LockStandby, StoreStandby Standby
	RedisArgs                 []string // more arguments for all Redis servers
	RedisEnv                  []string
	PostgresSettings          []string
	PostgresEnv               []string
	Volatile                  bool  // Redis keeps nothing on disk: a killed one is empty. Default: everything is kept (appendfsync always)
	SmallDisk                 int64 // the store's data lies on a file system of so many bytes; 0: on the usual one

	// Servers of the user's own: nothing is started for them.
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

	// The links by what they lead to: "lock", "lock-0" ... (redlock), "store"; one of both where
	// they are one server: "server". "gateway-0" ...
	Links map[string]*link.Link

	Gateways []*Gateway
	Clients  []*Process
}

var _ = history.Line{}
