package check

import (
	"fmt"

	"github.com/fencegate/fencegate/internal/torture/history"
)

// versions checks that within an era a version of a record has one value, and that an applied
// change makes it grow.
func (r *run) versions(g *group) {
	type versionID struct {
		recordID
		era     int
		version int64
	}
	type sight struct{ value, op string }
	first := make(map[versionID]sight)
	see := func(era int, c history.Cell, op string) {
		if c.Version == 0 {
			return
		}
		id := versionID{idOf(c), era, c.Version}
		old, ok := first[id]
		if !ok {
			first[id] = sight{c.Value, op}
			return
		}
		if old.value != c.Value {
			r.violate(Violation{
				Invariant: "INV5", Check: "versions", Group: g.name, Ops: []string{old.op, op},
				Text: fmt.Sprintf("version %d of %s is %q and %q", c.Version, c.Key, old.value, c.Value),
			})
		}
	}
	for _, op := range g.reads {
		if era, ok := r.era(op.Call, op.Return); ok {
			for _, c := range op.Cells {
				see(era, c, op.ID)
			}
		}
	}
	for _, c := range g.commits {
		era, ok := r.era(c.call, c.ret)
		if !ok || c.outcome != applied {
			continue
		}
		for _, w := range c.writes {
			if w.Kind == "delete" {
				continue
			}
			value := w.Value
			if w.Kind == "add" {
				value = fmt.Sprint(w.Counter)
			}
			see(era, history.Cell{Resource: w.Resource, Key: w.Key, Value: value, Version: w.Version}, c.id())
			for _, from := range c.cells {
				if w.Version != 0 && from.Resource == w.Resource && from.Key == w.Key && from.Version >= w.Version {
					r.violate(Violation{
						Invariant: "INV5", Check: "versions", Group: g.name, Ops: []string{c.id()},
						Text: fmt.Sprintf("%s changed %s from version %d to %d", c.id(), w.Key, from.Version, w.Version),
					})
				}
			}
		}
	}
	for _, c := range g.final {
		see(len(r.eras), c, "end")
	}
}
