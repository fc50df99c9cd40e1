package storage

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/bench/report"
	"github.com/fencegate/fencegate/internal/bench/rig"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/locking/redislock"
	"github.com/fencegate/fencegate/storage"
	"github.com/fencegate/fencegate/storage/pgstore"
)

// way is a way to take one from the stock of a hot coupon. Each has a coupon of its own: a
// grant of a lock would end the token of another way.
type way struct {
	name string
	kind report.Kind
	take func(ctx context.Context, client int) error
	left func(ctx context.Context) (int64, error) // of the stock
	// lock is the first half of take, and what it returns the second. Nil where there is no lock.
	lock func(ctx context.Context, client int) (finish func() error, err error)
	took *atomic.Int64 // acknowledged, see counted
}

// byLock makes take of the two halves.
func byLock(w way) way {
	w.take = func(ctx context.Context, client int) error {
		finish, err := w.lock(ctx, client)
		if err != nil {
			return err
		}
		return finish()
	}
	return w
}

// row returns a coupon of the plain table, and how to look at its stock.
func (d database) row(ctx context.Context, id string) (left func(context.Context) (int64, error), err error) {
	return func(ctx context.Context) (n int64, err error) {
		err = d.pool.QueryRow(ctx, selectCouponSQL, id).Scan(&n)
		return n, err
	}, d.coupon(ctx, "coupons", id)
}

// plainWay needs no lock at all.
func plainWay(ctx context.Context, d database) (way, error) {
	const id = "plain"
	left, err := d.row(ctx, id)
	return way{name: "plain UPDATE", kind: report.Peer, left: left, take: func(ctx context.Context, _ int) error {
		_, err := d.pool.Exec(ctx, updateCouponSQL, id)
		return err
	}}, err
}

// redsyncWay is a lock without a fence around a read and a write. retry is the time between
// two attempts; 0 is redsync's own, 50 to 250 ms at random.
func redsyncWay(ctx context.Context, h *rig.Host, d database, addr string, retry time.Duration) (way, error) {
	name, id := "redsync's way", "redsync"
	options := []redsync.Option{redsync.WithExpiry(30 * time.Second), redsync.WithTries(1 << 20)}
	if retry > 0 {
		name, id = name+", looking every "+retry.String(), "redsync:"+retry.String()
		options = append(options, redsync.WithRetryDelay(retry))
	}
	left, err := d.row(ctx, id)
	rs := redsync.New(goredis.NewPool(rig.Client(h, addr, clients)))
	return byLock(way{name: name, kind: report.Peer, left: left, lock: func(ctx context.Context, _ int) (func() error, error) {
		m := rs.NewMutex(id, options...)
		if err := m.LockContext(ctx); err != nil {
			return nil, err
		}
		return func() error {
			n, err := left(ctx)
			if err == nil {
				_, err = d.pool.Exec(ctx, setCouponSQL, id, n-1)
			}
			if ok, unlock := m.UnlockContext(context.WithoutCancel(ctx)); unlock != nil || !ok {
				err = errors.Join(err, errors.New("redsync: not unlocked"), unlock)
			}
			return err
		}, nil
	}}), err
}

// lockWay is this project's lock around a fenced read and a fenced write. A process has a
// Locker of its own; the clients are spread over them.
func lockWay(ctx context.Context, h *rig.Host, d database, addr string, processes int) (way, error) {
	name, id := "lock, read, write, release", "coupon:locked"
	if processes > 1 {
		name, id = fmt.Sprintf("%s, %d processes", name, processes), "coupon:processes"
	}
	_, s, left, err := d.record(ctx, id)
	if err != nil {
		return way{}, err
	}
	lockers := make([]*locking.Locker, processes)
	for i := range lockers {
		b, err := redislock.New(rig.Client(h, addr, clients), nil)
		if err != nil {
			return way{}, err
		}
		desk, err := locking.NewIssuer(b, []fencing.Fence{s}, nil)
		if err != nil {
			return way{}, err
		}
		if lockers[i], err = locking.New(desk, nil); err != nil {
			return way{}, err
		}
	}
	return byLock(way{name: name, kind: report.Ours, left: left, lock: func(ctx context.Context, client int) (func() error, error) {
		lease, err := lockers[client%processes].Acquire(ctx, id)
		if err != nil {
			return nil, err
		}
		return func() error {
			return errors.Join(readAndWrite(ctx, s, lease.Token()), lease.Release(ctx))
		}, nil
	}}), nil
}

func readAndWrite(ctx context.Context, s *storage.Store, t fencing.Token) error {
	rec, err := s.GetFenced(ctx, t, key)
	if err != nil {
		return err
	}
	n, ok := storage.ParseCounter(rec.Value)
	if !ok {
		return storage.ErrNotCounter
	}
	_, err = s.Put(ctx, t, key, storage.Counter(n-1))
	return err
}

// combinedWay is a process that has the token, and commits for all clients at once.
func combinedWay(ctx context.Context, d database) (way, error) {
	take, left, err := decrement(ctx, d, "coupon:combined")
	return way{name: "combined commits", kind: report.Ours, take: take, left: left}, err
}

// singleWay is the same for one client after the other: nothing can be combined.
func singleWay(ctx context.Context, d database) (way, error) {
	take, left, err := decrement(ctx, d, "coupon:single")
	var turn sync.Mutex
	return way{name: "one commit at a time", kind: report.Ours, left: left, take: func(ctx context.Context, client int) error {
		turn.Lock()
		defer turn.Unlock()
		return take(ctx, client)
	}}, err
}

func decrement(ctx context.Context, d database, resource string) (func(context.Context, int) error, func(context.Context) (int64, error), error) {
	t, s, left, err := d.record(ctx, resource)
	return func(ctx context.Context, _ int) error {
		_, err := s.Commit(ctx, storage.Commit{
			Tokens: []fencing.Token{t}, Ops: []storage.Op{storage.Add(t.Resource, key, -1, 0)},
		})
		return err
	}, left, err
}

// record returns a store with a coupon, a token of it, and how to look at its stock.
func (d database) record(ctx context.Context, resource string) (fencing.Token, *storage.Store, func(context.Context) (int64, error), error) {
	b, err := pgstore.New(ctx, d.pool, nil)
	if err != nil {
		return fencing.Token{}, nil, nil, err
	}
	h, err := granted(ctx, b, resource)
	if err == nil {
		_, err = h.store.Put(ctx, h.token, key, storage.Counter(stock))
	}
	return h.token, h.store, func(ctx context.Context) (int64, error) {
		rec, err := h.store.Get(ctx, resource, key)
		n, ok := storage.ParseCounter(rec.Value)
		if err == nil && !ok {
			err = storage.ErrNotCounter
		}
		return n, err
	}, err
}
