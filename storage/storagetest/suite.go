// Package storagetest is the conformance suite of package storage: one set of scenarios
// for every backend behind a *storage.Store, and for the HTTP client, which must not be
// told apart from one.
//
// [Run] runs the scenarios, [RunRule] the table of package fencingtest over fenced reads
// and commits, [Differential] random operations beside a model. The suite is itself
// tested: for each promise there is a store that breaks it, and a scenario that fails.
package storagetest

import (
	"context"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/storage"
)

// Surface is what a *storage.Store and the HTTP client both have.
type Surface interface {
	Commit(ctx context.Context, c storage.Commit) (storage.Result, error)
	Get(ctx context.Context, resource, key string) (storage.Record, error)
	GetFenced(ctx context.Context, t fencing.Token, key string) (storage.Record, error)
	List(ctx context.Context, resource, prefix, after string, limit int) ([]storage.Record, error)
	// Mark may leave out the grant id: the HTTP client never learns it.
	Mark(ctx context.Context, resource string) (fencing.Mark, error)
}

var _ Surface = (*storage.Store)(nil)

// Subject is one store under test.
type Subject struct {
	// Store is what is tested.
	Store Surface
	// Fence raises, retires and evicts in the same store, and shows whole marks. It is
	// a *storage.Store: the same one, or over HTTP the gateway's own.
	Fence fencing.Fence
	// Backend is what is behind it, for batches; nil where it cannot be reached.
	Backend storage.Backend
}

// Update runs fn in a transaction of the backend's own that is fenced by tokens. In it,
// write sets a record, or a row of the test's own: see Harness.Read.
type Update func(
	ctx context.Context, s Subject,
	fn func(ctx context.Context, write func(resource, key string, value []byte) error) error,
	tokens ...fencing.Token,
) error

// UpdateOnce is an Update under an idempotency key: where its record says that it was committed,
// fn is not called, and replayed is true.
type UpdateOnce func(
	ctx context.Context, s Subject, key string,
	fn func(ctx context.Context, write func(resource, key string, value []byte) error) error,
	tokens ...fencing.Token,
) (replayed bool, err error)

// Harness connects a store to the suite.
type Harness struct {
	// New returns a store of the given mode. Stores may share a server and a database:
	// every scenario has resources of its own. Scenarios of one mode share one store and
	// run in parallel.
	New func(tb testing.TB, mode fencing.Mode) Subject
	// MaxValue and MaxOps are the limits that New gives. Default: 1 MiB and 256, those
	// of storage.New.
	MaxValue, MaxOps int
	// Update is the backend's own fenced transaction; nil where it has none.
	Update Update
	// UpdateOnce is Update under an idempotency key; nil where the backend has none.
	UpdateOnce UpdateOnce
	// Aged makes the idempotency records that a resource has now overdue, and none that come
	// later; nil where they cannot be reached.
	Aged func(tb testing.TB, s Subject, resource string)
	// Sweep removes the overdue idempotency records of every resource and says how many; nil
	// where the backend has none.
	Sweep func(ctx context.Context, s Subject) (removed int, err error)
	// Answered is Store.Answered; nil where Store has none.
	Answered func(ctx context.Context, s Subject, c storage.Commit) (res storage.Result, found bool, err error)
	// Read returns what Update's write wrote, outside of any transaction. Default: the
	// record, by Store.Get.
	Read func(ctx context.Context, s Subject, resource, key string) (value []byte, found bool, err error)
	// Checks is the number of random sequences in Differential, where the flag
	// -rapid.checks is not given. Default: 100, that of rapid.
	Checks int
}

// patience is how long a scenario waits for what must come, on a slow machine.
const patience = 60 * time.Second

var (
	strict  = []fencing.Mode{fencing.Strict}
	classic = []fencing.Mode{fencing.Classic}
	both    = []fencing.Mode{fencing.Strict, fencing.Classic}
)

// scenario is one named story. It fails where its guarantee is broken.
type scenario struct {
	name  string
	modes []fencing.Mode
	needs need
	play  func(r *run)
}

type need int

const (
	nothing need = iota
	update
	backend
	once
	aged
	sweeper
	answered
)

func scenarios() []scenario {
	return []scenario{
		{"epochs never interleave", both, nothing, epochs},
		{"concurrent adds are all counted", both, nothing, concurrentAdds},
		{"concurrent commits stand on their own", strict, nothing, ownMerits},
		{"concurrent commits of several resources", strict, nothing, transfers},
		{"a batch is judged commit by commit", strict, backend, batch},

		{"random tokens are accepted in order", both, nothing, randomWriters},

		{"a key is applied once", both, nothing, keyOnce},
		{"a key under another token", both, nothing, keyLaterToken},
		{"a key that the fence refused", both, nothing, keyFenceRefusal},
		{"a key that the data refused", both, nothing, keyDataRefusals},
		{"a key is for one commit", both, nothing, keyPayload},
		{"a key belongs to the lowest resource", strict, nothing, keyResource},
		{"names of keys", both, nothing, keyNames},
		{"a key remembers exactly", strict, nothing, keyExact},
		{"one key several times in a batch", strict, backend, keyBatch},
		{"concurrent sends of one key", both, nothing, keyRace},
		{"a key is looked up", both, answered, keyAnswered},
		{"overdue keys go in small steps", strict, aged, retention},
		{"overdue keys are swept", strict, sweeper, sweep},

		{"read-modify-write is not lost", both, nothing, readModifyWrite},
		{"without a raise the gap is there", classic, nothing, gapWithoutRaise},
		{"a third client", both, nothing, thirdClient},
		{"two writes are torn without one commit", both, nothing, torn},
		{"two writes are whole with one commit", both, nothing, whole},

		{"a refusal by the fence changes nothing", strict, nothing, fenceRefusals},
		{"a refusal by the data changes nothing", both, nothing, dataRefusals},
		{"a refused delete leaves no trace", strict, nothing, refusedDelete},
		{"the fence comes before the data", strict, nothing, fenceFirst},

		{"raise again", both, nothing, raiseAgain},
		{"retire", both, nothing, retire},
		{"evict", both, nothing, evict},
		{"re-entry", both, nothing, reentry},
		{"expired but unclaimed", both, nothing, unclaimed},
		{"marks are per resource", both, nothing, marksApart},
		{"the highest number", both, nothing, highestNumber},
		{"strict never raises by use", strict, nothing, strictNeverRaises},
		{"classic raises by use", classic, nothing, classicRaises},
		{"classic keeps the raise of a refused commit", classic, nothing, classicKeepsRaise},

		{"versions grow by one", strict, nothing, versionsGrow},
		{"versions are never used again", strict, nothing, versionsNeverAgain},
		{"require", strict, nothing, require},
		{"require beside a change", strict, nothing, requireBesideChange},
		{"delete", strict, nothing, deletes},
		{"add", strict, nothing, adds},
		{"add at the edges", strict, nothing, addEdges},
		{"not a counter", strict, nothing, notCounters},
		{"values", strict, nothing, values},
		{"the largest value", strict, nothing, largestValue},
		{"values are not shared", strict, nothing, valuesApart},
		{"fenced reads", both, nothing, fencedReads},
		{"list", strict, nothing, lists},
		{"list by pages", strict, nothing, listPages},
		{"names are exact", strict, nothing, namesExact},

		{"commits of several resources", strict, nothing, severalResources},
		{"a token without operations", strict, nothing, bystander},
		{"the largest commit", strict, nothing, largestCommit},
		{"bad input", both, nothing, badInput},
		{"a context that has ended", both, nothing, endedContext},
		{"a context that ends on the way", strict, nothing, endingContext},

		{"a raise waits for the transaction in flight", strict, update, raiseWaits},
		{"update writes or does not", strict, update, updates},
		{"update is refused", strict, update, updateRefused},
		{"a panic in update", strict, update, updatePanics},
		{"an update with a key", strict, once, updateWithKey},
	}
}

// Run runs the scenarios.
func Run(t *testing.T, h Harness) {
	subjects := map[fencing.Mode]Subject{}
	for _, mode := range both {
		subjects[mode] = h.New(t, mode)
	}
	for _, sc := range scenarios() {
		for _, mode := range sc.modes {
			t.Run(sc.name+"/"+mode.String(), func(t *testing.T) {
				t.Parallel()
				sc.run(t, h, mode, subjects[mode])
			})
		}
	}
}

func (sc scenario) run(tb testing.TB, h Harness, mode fencing.Mode, s Subject) {
	tb.Helper()
	switch {
	case sc.needs == update && h.Update == nil:
		tb.Skip("the harness has no Update")
	case sc.needs == backend && s.Backend == nil:
		tb.Skip("the subject has no Backend")
	case sc.needs == once && h.UpdateOnce == nil:
		tb.Skip("the harness has no UpdateOnce")
	case sc.needs == aged && h.Aged == nil:
		tb.Skip("the harness has no Aged")
	case sc.needs == sweeper && (h.Aged == nil || h.Sweep == nil):
		tb.Skip("the harness has no Sweep")
	case sc.needs == answered && h.Answered == nil:
		tb.Skip("the harness has no Answered")
	}
	if h.MaxValue == 0 {
		h.MaxValue = 1 << 20
	}
	if h.MaxOps == 0 {
		h.MaxOps = 256
	}
	if h.Read == nil {
		h.Read = readRecord
	}
	sc.play(&run{TB: tb, h: h, mode: mode, s: s})
}
