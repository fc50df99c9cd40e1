package main

import (
	"context"
	"fmt"

	"github.com/fencegate/fencegate/gateway"
)

// readiness returns gateway.Options.Ready: a look at the lock and the store in use.
func readiness(f backendFlags, o *opened) func(context.Context) []gateway.Check {
	return func(ctx context.Context) []gateway.Check {
		lock := look(ctx, newPart("lock", f.Lock), o.lockServes, o.lockSchema, o.lock)
		store := look(ctx, newPart("store", f.Store), o.storeServes, o.storeSchema, o.store)
		if f.Store == "memory" {
			store.add(inMemory)
		}
		return []gateway.Check{lock.check(), store.check()}
	}
}

// look examines a part that is in use. Either it serves or not; that it does not tell of its
// durability does not keep it from serving.
func look(ctx context.Context, p part, serves func(context.Context) error, schema func(context.Context) (int, error), backend any) part {
	if serves != nil {
		if err := serves(ctx); err != nil {
			p.err = err
			return p
		}
	}
	p.Checked = append(p.Checked, "it serves")
	if schema != nil {
		if version, err := schema(ctx); err == nil {
			p.Checked = append(p.Checked, fmt.Sprintf("schema version %d", version))
		}
	}
	if err := p.examine(ctx, backend); err != nil {
		p.add("its durability cannot be asked for: " + err.Error())
	}
	return p
}

// check is the part as the gateway shows it.
func (p part) check() gateway.Check {
	return gateway.Check{Name: p.Part + " " + p.Kind, Err: p.err, Warnings: append(p.Problems, p.Warnings...), Details: p.Checked}
}
