// Command coupon is the whole of fencing in one file: a client that was paused past its
// lease wakes up and writes, and is safely refused. It needs no server: the lock is in this
// process and the data in an SQLite file.
//
//	go run ./examples/coupon
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/locking/memlock"
	"github.com/fencegate/fencegate/storage"
	"github.com/fencegate/fencegate/storage/sqlitestore"
)

const (
	coupon = "coupon:42" // the resource: what the lock and the fence guard
	left   = "left"      // its record: how many coupons are left
)

func main() {
	dir, err := os.MkdirTemp("", "coupon-")
	if err != nil {
		log.Fatal(err)
	}
	err = run(context.Background(), os.Stdout, filepath.Join(dir, "coupons.db"))
	_ = os.RemoveAll(dir)
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, out io.Writer, path string) error {
	// The store holds the data and the highest token that it has seen, and refuses every
	// older one.
	db, err := sqlitestore.Open(ctx, path, nil)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	store, err := storage.New(db, nil)
	if err != nil {
		return err
	}
	// The issuer grants locks and raises their tokens in the store before anybody reads.
	issuer, err := locking.NewIssuer(memlock.New(), []fencing.Fence{store}, nil)
	if err != nil {
		return err
	}
	// A locker takes out leases and renews them while the work runs.
	locker, err := locking.New(issuer, &locking.Options{TTL: 2 * time.Second})
	if err != nil {
		return err
	}
	if err := locker.Do(ctx, coupon, func(ctx context.Context, t fencing.Token) error {
		_, err := store.Put(ctx, t, left, storage.Counter(10))
		return err
	}); err != nil {
		return err
	}

	// Client A takes the lock for a short time and reads. Then it is paused: a process
	// that stands still renews nothing. (A lease from a Locker would renew itself.)
	a, err := issuer.Grant(ctx, locking.Request{Resource: coupon, Label: "A", TTL: 300 * time.Millisecond})
	if err != nil {
		return err
	}
	seen, err := read(ctx, store, a.Token)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "A holds token %d, reads %d, and is paused\n", a.Token.Number, seen)

	// Client B waits for A's time to run out, takes the lock and hands out a coupon.
	if err := handOut(ctx, out, "B", locker, store); err != nil {
		return err
	}

	// A wakes up. It believes that it still holds the lock, and writes what it computed.
	_, err = store.Put(ctx, a.Token, left, storage.Counter(seen-1))
	var stale *fencing.StaleError
	if !errors.As(err, &stale) {
		return fmt.Errorf("the late write of A was not refused: %w", err)
	}
	fmt.Fprintf(out, "A wakes up, writes %d with token %d, and is refused: the store has seen %d\n",
		seen-1, stale.Token.Number, stale.Highest)

	// A refused write changed nothing. A starts over: lock, read, write.
	if err := handOut(ctx, out, "A", locker, store); err != nil {
		return err
	}
	rec, err := store.Get(ctx, coupon, left)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "2 coupons were handed out, %s are left of 10\n", rec.Value)
	return nil
}

// handOut hands out one coupon: lock, read, write, release. If a write is refused, start
// over with a new lock, never with the old value.
func handOut(ctx context.Context, out io.Writer, name string, locker *locking.Locker, store *storage.Store) error {
	return locker.Do(ctx, coupon, func(ctx context.Context, t fencing.Token) error {
		n, err := read(ctx, store, t)
		if err != nil {
			return err
		}
		if n == 0 {
			return errors.New("no coupon is left")
		}
		if _, err := store.Put(ctx, t, left, storage.Counter(n-1)); err != nil {
			return err
		}
		fmt.Fprintf(out, "%s holds token %d, reads %d, writes %d\n", name, t.Number, n, n-1)
		return nil
	})
}

// read reads how many coupons are left, inside the fence.
func read(ctx context.Context, store *storage.Store, t fencing.Token) (int64, error) {
	rec, err := store.GetFenced(ctx, t, left)
	if err != nil {
		return 0, err
	}
	n, ok := storage.ParseCounter(rec.Value)
	if !ok {
		return 0, fmt.Errorf("%s/%s is not a number", coupon, left)
	}
	return n, nil
}
