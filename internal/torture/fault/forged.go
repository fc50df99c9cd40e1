package fault

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/torture/history"
	"github.com/fencegate/fencegate/internal/torture/rig"
	"github.com/fencegate/fencegate/internal/torture/workload"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/storage"
)

func forged() Fault {
	return Fault{
		Name: "forged",
		What: "writes with forged and replayed tokens, as many as the store takes, on the resources that others work on: " +
			"current numbers with another grant, old ones, later ones, the greatest, and tokens that were released",
		Expect: "each is refused, and the others' work goes on: nobody can brick a resource, either",
		Fits:   anywhere, Hold: 1200 * time.Millisecond, Inject: forge,
	}
}

// forgers write at once.
const forgers = 8

// forger is one of them.
type forger struct {
	*ops
	rnd    *rand.Rand
	access workload.Access
	groups []group
	spent  []fencing.Token // of a resource of its own, released
}

// group is one of the run's, with its workload's name.
type group struct {
	workload  string
	resources []string
}

func forge(ctx context.Context, r *rig.Rig, rnd *rand.Rand, note *history.Fault) (healing, error) {
	access, err := r.Access(ctx)
	if err != nil {
		return nil, err
	}
	o := newOps("forged", rnd)
	groups := groupsOf(r)
	if len(groups) == 0 {
		return nil, errors.New("the run has no groups")
	}
	spent, err := spend(ctx, access, r.Spec.Client.Prefix+"-"+o.name)
	if err != nil {
		return nil, err
	}
	outer := ctx
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	for range forgers {
		f := &forger{o, fork(rnd), access, groups, spent}
		all.Go(func() {
			for ctx.Err() == nil {
				f.write(ctx)
			}
		})
	}
	return func(context.Context) error {
		cancel()
		all.Wait()
		note.Ops = append(note.Ops, o.list...)
		refused, failed, unknown := o.count(history.Commit, fencing.Refused), o.count(history.Commit, fencing.Failed), o.count(history.Commit, fencing.Unknown)
		note.Detail = fmt.Sprintf("%d writes, %d of them refused, %d failed, %d unknown", len(o.list), refused, failed, unknown)
		return atLeastOne(outer, len(o.list)-failed-unknown, "none of %d forged writes was judged by the store", len(o.list))
	}, nil
}

func groupsOf(r *rig.Rig) (list []group) {
	c := r.Spec.Client
	for _, name := range c.Workloads {
		w, ok := workload.Named(name)
		if !ok {
			continue
		}
		for i := range c.Groups {
			list = append(list, group{name, w.Resources(c.Prefix, i)})
		}
	}
	return list
}

// spend takes a lock some times, and returns the tokens, which are released.
func spend(ctx context.Context, access workload.Access, resource string) (list []fencing.Token, err error) {
	for range 3 {
		g, err := access.Issuer.Grant(ctx, locking.Request{Resource: resource, Grant: fencing.NewGrant(), Label: "forged", TTL: 5 * time.Second, Wait: patience})
		if err != nil {
			return nil, fmt.Errorf("a token to be replayed: %w", err)
		}
		if _, err := access.Issuer.Release(ctx, g.Token); err != nil {
			return nil, fmt.Errorf("a token to be replayed: %w", err)
		}
		list = append(list, g.Token)
	}
	return list, nil
}

// write sends one write that must be refused.
func (f *forger) write(ctx context.Context) {
	// Bounded by itself: when the fault ends a write that is under way is still to be answered.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
	defer cancel()
	op := history.Op{ID: f.id(), Kind: history.Commit, Forged: true}
	var tokens []fencing.Token
	if f.rnd.IntN(6) == 0 {
		t := f.spent[f.rnd.IntN(len(f.spent))]
		op.Workload, op.Group, tokens = "forged", t.Resource, []fencing.Token{t}
	} else {
		g := f.groups[f.rnd.IntN(len(f.groups))]
		op.Workload, op.Group = g.workload, g.resources[0]
		for _, resource := range g.resources {
			status, err := f.access.Issuer.Status(ctx, resource)
			if err != nil {
				wait(ctx, 5*time.Millisecond)
				return
			}
			tokens = append(tokens, f.token(resource, status.Number))
		}
	}
	resource, value := tokens[0].Resource, "forged "+op.ID
	op.Writes = []history.Write{{Kind: "put", Resource: resource, Key: "value", Value: value}}
	for _, t := range tokens {
		op.Tokens = append(op.Tokens, history.TokenOf(t))
	}
	_ = f.call(op, func(*history.Op) error {
		_, err := f.access.Store.Commit(ctx, storage.Commit{Tokens: tokens, Ops: []storage.Op{storage.Put(resource, "value", []byte(value))}})
		return err
	})
}

// token makes one up. Its grant is new, so whatever its number it was never granted.
func (f *forger) token(resource string, number int64) fencing.Token {
	switch f.rnd.IntN(5) {
	case 0: // the current one, if the status was not old already
	case 1:
		number -= 1 + f.rnd.Int64N(20)
	case 2:
		number += 1 + f.rnd.Int64N(20)
	case 3:
		number += 1 << (10 + f.rnd.IntN(30))
	case 4:
		number = fencing.MaxNumber - f.rnd.Int64N(2)
	}
	number = min(max(number, 1), fencing.MaxNumber)
	return fencing.Token{Resource: resource, Number: number, Grant: fencing.NewGrant()}
}
