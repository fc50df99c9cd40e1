package measure

import (
	"runtime"
	"strings"
)

// Heap returns how many bytes of the heap are in use, after a collection.
func Heap() int64 {
	runtime.GC()
	runtime.GC() // what finalizers and pools let go
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc) //nolint:gosec // it fits
}

// Copies returns how many bytes of the heap copies of the names take.
func Copies(names []string) int64 {
	copies := make([]string, len(names))
	start := Heap()
	for i, name := range names {
		copies[i] = strings.Clone(name)
	}
	grown := Heap() - start
	runtime.KeepAlive(copies)
	return grown
}

// Allocations returns how many allocations one call of op takes, on average over n calls. It
// counts those of the whole process.
func Allocations(n int, op func() error) (float64, error) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range n {
		if err := op(); err != nil {
			return 0, err
		}
	}
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs-before.Mallocs) / float64(n), nil
}
