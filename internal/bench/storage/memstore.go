package storage

import (
	"context"
	"fmt"
	"runtime"
	"strings"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/bench/measure"
	"github.com/fencegate/fencegate/internal/bench/report"
	"github.com/fencegate/fencegate/internal/bench/rig"
	"github.com/fencegate/fencegate/storage/memstore"
)

var memstoreGoals = []report.Goal{
	{Name: "memstore, memory per mark beside its key, 1 M resources", Unit: "bytes", Target: 64, Better: report.Lower},
}

// inMemory measures what marks take of the heap, less what copies of their names take.
func inMemory(ctx context.Context, _ *rig.Host, r *report.Report, s Sizes) error {
	names := make([]string, s.Marks)
	for i := range names {
		names[i] = fmt.Sprintf("coupon:%07d", i)
	}
	keys := measure.Copies(names)
	var bytes []float64
	for range 2 {
		start := measure.Heap()
		b := memstore.New(nil)
		for _, name := range names { // a copy is the store's to keep or not: the names here stay
			if err := b.Raise(ctx, fencing.Token{Resource: strings.Clone(name), Number: 1, Grant: fencing.NewGrant()}); err != nil {
				return err
			}
		}
		bytes = append(bytes, float64(measure.Heap()-start-keys)/float64(len(names)))
		runtime.KeepAlive(b)
	}
	runtime.KeepAlive(names)
	r.Reached(memstoreGoals[0], bytes...)
	return nil
}
