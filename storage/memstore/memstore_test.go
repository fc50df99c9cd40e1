package memstore_test

import (
	"context"
	"testing"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/fencing/fencingtest"
	"github.com/fencegate/fencegate/storage"
	"github.com/fencegate/fencegate/storage/memstore"
	"github.com/fencegate/fencegate/storage/storagetest"
)

var harness = storagetest.Harness{
	New: func(tb testing.TB, mode fencing.Mode) storagetest.Subject {
		b := memstore.New(nil)
		s, err := storage.New(b, &storage.Options{Mode: mode})
		if err != nil {
			tb.Fatal(err)
		}
		return storagetest.Subject{Store: s, Fence: s, Backend: b}
	},
	Aged: func(_ testing.TB, s storagetest.Subject, resource string) {
		s.Backend.(*memstore.Backend).Age(resource)
	},
	Sweep: func(ctx context.Context, s storagetest.Subject) (removed int, err error) {
		return s.Backend.(*memstore.Backend).Sweep(ctx)
	},
	Answered: storagetest.Answered,
}

func TestSuite(t *testing.T) {
	t.Parallel()
	storagetest.Run(t, harness)
}

func TestRule(t *testing.T) {
	t.Parallel()
	storagetest.RunRule(t, harness, storagetest.Rule{
		Set: func(tb testing.TB, s storagetest.Subject, resource string, state fencingtest.State) {
			tb.Helper()
			s.Backend.(*memstore.Backend).SetMark(tb, resource, state.Seen())
		},
		Incarnations: true, // memory has none; a retired mark is what one would look like
	})
}

func TestDifferential(t *testing.T) {
	t.Parallel()
	storagetest.Differential(t, harness)
}
