package workload

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/torture/history"
	"github.com/fencegate/fencegate/storage"
)

// named returns the name of group i of a workload.
func named(prefix, workload string, i int) string {
	name := workload + ":" + strconv.Itoa(i)
	if prefix != "" {
		name = prefix + ":" + name
	}
	return name
}

// locked runs fn with the locks of the resources.
func locked(ctx context.Context, a Access, resources []string, fn func([]fencing.Token) error) error {
	leases, err := a.Locker.AcquireAll(ctx, resources...)
	if err != nil {
		return err
	}
	return errors.Join(fn(leases.Tokens()), leases.Release(ctx))
}

// seed writes what a group begins with, and returns it.
func seed(ctx context.Context, a Access, resources []string, ops ...storage.Op) (cells []history.Cell, err error) {
	err = locked(ctx, a, resources, func(tokens []fencing.Token) error {
		res, err := a.Store.Commit(ctx, storage.Commit{Tokens: tokens, Ops: ops})
		if err != nil {
			return err
		}
		for i, op := range ops {
			cells = append(cells, history.Cell{Resource: op.Resource, Key: op.Key, Value: string(op.Value), Version: res.Ops[i].Version})
		}
		return nil
	})
	return cells, err
}

// records reads all records of resources.
func records(ctx context.Context, a Access, resources []string) (cells []history.Cell, err error) {
	const page = 1000
	for _, r := range resources {
		after := ""
		for {
			list, err := a.Store.List(ctx, r, "", after, page)
			if err != nil {
				return nil, err
			}
			for _, rec := range list {
				cells = append(cells, history.Cell{Resource: rec.Resource, Key: rec.Key, Value: string(rec.Value), Version: rec.Version})
			}
			if len(list) < page {
				break
			}
			after = list[len(list)-1].Key
		}
	}
	return cells, nil
}

// count reads the number that a value begins with; 0 where there is none.
func count(value string) int64 {
	n, _, _ := strings.Cut(value, " ")
	c, err := strconv.ParseInt(n, 10, 64)
	if err != nil {
		return 0
	}
	return c
}
