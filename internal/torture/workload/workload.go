// Package workload is what the clients of a run do with a lock and a store, turn by turn.
//
// # The workloads and their records
//
// A group is what is checked together: one resource, or several that are committed together. Every
// write of a turn is one commit; values are made unique with the op's id, so that a checker can
// tell whose write it sees.
//
//	register  one resource. Record "value": "<n> <op id>". Read it fenced, put n+1.
//	bank      two resources R-a and R-b, group R-a. Record "balance" in each (a counter). Lock both, read
//	          both, move a random amount in one commit (puts of both). Their sum stays 1000.
//	set       one resource. Put a new record "e.<op id>" each turn.
//	coupon    one resource. Counter "stock" from 1,000,000; from 60 in every third group (2, 5, 8, ...), so that it
//	          runs out and the data refuses under a key. One commit with a key: Add(stock, -1, min 0)
//	          and Put("receipt.<key>"). An unknown outcome is asked again under the key until it is
//	          known, with a later token if need be. Through a gateway some are one-call commits (Once).
//	task      one resource. Records "left" and "right" are put to one and the same value in a
//	          commit; a turn reads both first: they must be equal.
//	log       one resource. Record "length" (a counter) and "entry.<%08d>": "<number> <grant fingerprint> <op id>".
//	          Read length fenced, then put length+1 and the entry of that place: an audit written inside
//	          the fence.
//	table     one resource, Postgres only, raw SQL in a guarded table, by fencegate.enter: table torture_rows
//	          (resource text primary key, n bigint, op text) is read and updated as register's value is,
//	          and torture_audit (resource, seq bigserial, number, op) gets a row in the same
//	          transaction. As cells: key "row" with value "<n> <op>", key "audit.<%08d seq>" with "<number> <op>".
//
// # What every turn does besides
//
// By its random generator a turn also: stands still for a while in the middle of its work; writes
// again after its lease has ended or was released (the store is to refuse it; Forged is set after an
// acknowledged release); renews a released token (must be lost); re-enters its lease (must be the same token);
// sends forged and replayed tokens (Forged); leaves without releasing; holds a grant that nobody
// renews, and works on past its end.
//
// # What it does not do
//
// After a commit that was applied, or may have been, nothing else is written under its token, but for
// the same commit under its key: tasks of one token are not protected from each other, and neither is a task from
// a request of its own that the network delivers twice.
//
// # How it is written down
//
// Acquire is Left where the turn takes the lock from the issuer, to leave it or to work beyond its end.
// Release is Freed where Lease.Release returned nil. A transaction of table is written down three times
// under its ID: before it begins, with nothing in it; before COMMIT is sent, with Cells and Writes (the audit's place is known by
// then); and after the answer. One that was left without Writes surely did nothing.
package workload

import (
	"context"
	"math/rand/v2"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/torture/history"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/storage"
)

// Store is what *storage.Store and the gateway's client have in common.
type Store interface {
	Commit(ctx context.Context, c storage.Commit) (storage.Result, error)
	Get(ctx context.Context, resource, key string) (storage.Record, error)
	GetFenced(ctx context.Context, t fencing.Token, key string) (storage.Record, error)
	List(ctx context.Context, resource, prefix, after string, limit int) ([]storage.Record, error)
}

// Access is how a process reaches the lock and the store.
type Access struct {
	Issuer locking.Issuer
	Locker *locking.Locker
	Store  Store
	Pool   *pgxpool.Pool // for workload table; nil where there is none
	// Locked makes a one-call commit; nil where there is no gateway.
	Locked func(ctx context.Context, c storage.Commit) (storage.Result, error)
}

// Seat is one of a process's goroutines: it takes turns until its context ends.
type Seat struct {
	Access
	Process, Seat int
	Rand          *rand.Rand
	// Log writes an op down, before the call and after it.
	Log func(history.Op)
	// Next returns a new op id.
	Next func() string
	// Hold is how long a turn works between its read and its write, about; see Options.
	Options

	past map[string][]fencing.Token // by group, the last tokens whose release was acknowledged
}

// Workload is one kind of work.
type Workload interface {
	// Name is as in the list above.
	Name() string
	// Resources returns those of group i, the first of which names the group. The names begin with
	// prefix, which is the run's.
	Resources(prefix string, i int) []string
	// Seed writes what group i begins with, and returns it.
	Seed(ctx context.Context, a Access, resources []string) ([]history.Cell, error)
	// Turn works once on a group, and writes down every call. It returns when its calls are answered,
	// or soon after ctx has ended.
	Turn(ctx context.Context, s *Seat, resources []string)
	// Final reads all records of group i, by plain reads, when nobody works any more.
	Final(ctx context.Context, a Access, resources []string) ([]history.Cell, error)
}

// All returns every workload, in the order of the list above.
func All() []Workload {
	return []Workload{register{}, bank{}, set{}, coupon{}, task{}, log{}, table{}}
}

// Named returns the workload of a name.
func Named(name string) (w Workload, ok bool) {
	for _, w := range All() {
		if w.Name() == name {
			return w, true
		}
	}
	return nil, false
}
