package check

import (
	"cmp"
	"slices"

	"github.com/fencegate/fencegate/internal/torture/history"
)

// grantID names a grant of a resource.
type grantID struct{ resource, grant string }

// grant is a lease of one resource, as its holder saw it.
type grant struct {
	history.Token
	op      *history.Op // the Acquire that was answered with it
	release *history.Op // nil: never
}

// indexGrants collects what was granted, and what became of it.
func (r *run) indexGrants() {
	r.byGrant = make(map[grantID]*grant)
	r.byHold = make(map[string][]*grant)
	r.released = make(map[grantID][]*history.Op)
	for i := range r.Ops {
		op := &r.Ops[i]
		if op.Forged {
			continue
		}
		switch {
		case op.Kind == history.Acquire && op.Outcome == applied:
			for _, t := range op.Tokens {
				r.grants = append(r.grants, &grant{Token: t, op: op})
			}
		case op.Kind == history.Release:
			for _, t := range op.Tokens {
				id := grantID{t.Resource, t.Grant}
				r.released[id] = append(r.released[id], op)
			}
		}
	}
	slices.SortStableFunc(r.grants, func(a, b *grant) int { return cmp.Compare(a.op.Return, b.op.Return) })
	for _, g := range r.grants {
		id := grantID{g.Resource, g.Grant}
		r.byGrant[id] = g
		for _, op := range r.released[id] {
			if g.release == nil || op.Call < g.release.Call {
				g.release = op
			}
		}
		if r.byHold[g.Resource] == nil {
			r.holds = append(r.holds, g.Resource)
		}
		r.byHold[g.Resource] = append(r.byHold[g.Resource], g)
	}
	slices.Sort(r.holds)
}

// groupOf names the group of a resource.
func (r *run) groupOf(resource string) string {
	if g := r.of[resource]; g != nil {
		return g.name
	}
	return resource
}
