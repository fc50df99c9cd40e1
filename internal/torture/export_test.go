package torture

import "github.com/fencegate/fencegate/internal/torture/history"

// Recovering gives calls to a recorder that awaits groups and clients since a moment, and returns who is missing then, and
// when the last of the others was served.
func Recovering(since int64, groups []string, clients []int, ops ...history.Op) (missing []string, last int64) {
	r := newRecorder(func() {})
	r.await(since, groups, clients)
	for _, op := range ops {
		r.line(op.Process, history.Line{Op: &op})
	}
	return r.awaited()
}

// OnlyVoid is onlyVoid, Judge is judge.
var (
	OnlyVoid = onlyVoid
	Judge    = judge
)
