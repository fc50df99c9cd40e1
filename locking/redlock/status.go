package redlock

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/redisx"
	"github.com/fencegate/fencegate/locking"
)

// scanTime bounds one walk through all keys of a node.
const scanTime = 30 * time.Second

// Status implements locking.Backend. It does not know of waiters. A hold is shown if a
// majority has it, or may have it as far as nodes do not answer. Number is the highest that
// was confirmed on a node that answers; it fails without a majority of them.
func (b *Backend) Status(ctx context.Context, resource string) (locking.Status, error) {
	if err := fencing.ValidateResource(resource); err != nil {
		return locking.Status{}, err
	}
	list, err := b.statuses(ctx, []string{resource})
	if err != nil {
		return locking.Status{}, err
	}
	return list[0], nil
}

func (b *Backend) statuses(ctx context.Context, resources []string) ([]locking.Status, error) {
	calls := make([]redisx.Call, len(resources))
	for i, name := range resources {
		calls[i] = b.call(name)
	}
	replies := b.askFit(ctx, status, func(int) []redisx.Call { return calls })
	list := make([]locking.Status, len(resources))
	for k, name := range resources {
		one := make([]redisx.Reply, len(b.nodes))
		for i := range b.nodes {
			one[i] = replies[i][k]
		}
		down, err := errorsOf(one)
		if len(b.nodes)-down < b.quorum {
			return nil, fencing.AsFailed(b.noMajority(down, err))
		}
		list[k] = b.summary(name, one, down)
	}
	return list, nil
}

func (b *Backend) summary(resource string, replies []redisx.Reply, down int) locking.Status {
	st := locking.Status{Resource: resource}
	left := map[int64][]time.Duration{}
	label := map[int64]string{}
	for _, r := range replies {
		if r.Err != nil || len(r.Values) != 5 {
			continue
		}
		st.Number = max(st.Number, parse(r.Values[1]))
		if held := parse(r.Values[2]); held > 0 {
			left[held] = append(left[held], parseMillis(r.Values[4]))
			label[held] = r.Values[3]
		}
	}
	for number, times := range left {
		if len(times)+down < b.quorum || st.Held && number < st.Number {
			continue
		}
		st.Held, st.Label, st.Number = true, label[number], max(st.Number, number)
		// Where too few answer, the longest is the best that is known.
		if st.Remaining = b.majorityLeft(times); len(times) < b.quorum {
			st.Remaining = slices.Max(times)
		}
	}
	return st
}

// List implements locking.Backend. It goes through all keys of every node: it is for
// operators. Holds that begin or end meanwhile may be missing.
func (b *Backend) List(ctx context.Context, prefix, after string, limit int) ([]locking.Status, error) {
	if err := ctx.Err(); err != nil {
		return nil, fencing.AsFailed(err)
	}
	found := make([][]string, len(b.nodes))
	errs := make([]redisx.Reply, len(b.nodes))
	var wg sync.WaitGroup
	for i := range b.nodes {
		wg.Go(func() { found[i], errs[i].Err = b.scan(ctx, i, prefix, "lock") })
	}
	wg.Wait()
	if down, err := errorsOf(errs); len(b.nodes)-down < b.quorum {
		return nil, fencing.AsFailed(b.noMajority(down, err))
	}
	names := slices.Concat(found...)
	names = slices.DeleteFunc(names, func(name string) bool { return name <= after })
	slices.Sort(names)
	names = slices.Compact(names)
	var list []locking.Status
	for len(names) > 0 && len(list) < limit {
		part := names[:min(len(names), limit-len(list))]
		names = names[len(part):]
		more, err := b.statuses(ctx, part)
		if err != nil {
			return nil, err
		}
		for _, st := range more {
			if st.Held {
				list = append(list, st)
			}
		}
	}
	return list, nil
}

// scan returns the resources of node i that begin with prefix and have a key of this kind.
func (b *Backend) scan(ctx context.Context, i int, prefix, kind string) ([]string, error) {
	n := b.nodes[i]
	// A node that is down must not take the time that a walk may take.
	short, cancel := context.WithTimeout(ctx, b.o.NodeTimeout)
	defer cancel()
	if err := n.client.Ping(short).Err(); err != nil {
		return nil, fencing.AsFailed(fmt.Errorf("node %s: redis: %w", n.addr, err))
	}
	ctx, cancel = context.WithTimeout(ctx, scanTime)
	defer cancel()
	escaped := strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(prefix)
	pattern := redisx.Key(b.prefix, escaped+"*", kind)
	begin, end, _ := strings.Cut(redisx.Key(b.prefix, "*", kind), "*")
	var names []string
	for cursor := uint64(0); ; {
		keys, next, err := n.client.Scan(ctx, cursor, pattern, 1000).Result()
		if err != nil {
			return nil, fencing.AsFailed(fmt.Errorf("node %s: redis: %w", n.addr, err))
		}
		for _, key := range keys {
			name := strings.TrimSuffix(strings.TrimPrefix(key, begin), end)
			if fencing.ValidateResource(name) == nil {
				names = append(names, name)
			}
		}
		if cursor = next; cursor == 0 {
			return names, nil
		}
	}
}
