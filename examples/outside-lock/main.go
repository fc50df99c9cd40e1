// Command outside-lock fences with the numbers of a lock service that is there already: etcd,
// whose revisions are tokens. The lock stays etcd's; what is added is the store that checks.
// The store is a classic one: it takes a number that it was never told of, and raises its mark.
//
//	go run ./examples/outside-lock
//	go run ./examples/outside-lock --etcd http://127.0.0.1:2379
//
// Without --etcd it starts an etcd of its own where the program is in the path, else a small lock
// service in this process that gives out revisions, too.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/storage"
	"github.com/fencegate/fencegate/storage/sqlitestore"
)

const (
	ship = "ship:1" // the resource: what the lock and the fence guard
	left = "left"   // its record: how many places are left

	ttl = 2 * time.Second // how long a lock outlives a holder that is silent; etcd rounds it up
)

// service is an outside lock service. Of all that it may be able to do, this is wanted: a number
// that grows from grant to grant, and that no restart makes smaller.
type service interface {
	// lock waits for the lock, which ends ttl after its holder fell silent.
	lock(ctx context.Context, name string, ttl time.Duration) (grant, error)
	String() string
}

// grant is one granting of an outside lock.
type grant struct {
	number int64
	unlock func(context.Context) error
}

func main() {
	url := flag.String("etcd", "", "an etcd to use, http://127.0.0.1:2379 say (default: a private one, or a stand-in)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM) // a private etcd is ended with us
	err := run(ctx, os.Stdout, *url)
	if err != nil && ctx.Err() != nil {
		err = errors.New("interrupted")
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "outside-lock:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, url string) (err error) {
	dir, err := os.MkdirTemp("", "outside-lock-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()

	var locks service = &etcd{url: strings.TrimRight(url, "/"), about: "etcd"}
	if url == "" {
		var end func()
		if program, lookErr := exec.LookPath("etcd"); lookErr == nil {
			locks, end, err = startEtcd(ctx, program, filepath.Join(dir, "etcd"))
		} else {
			locks, end, err = startStandIn(ctx)
		}
		if err != nil {
			return err
		}
		defer end()
	}
	fmt.Fprintf(out, "the locks are from %v\n", locks)

	db, err := sqlitestore.Open(ctx, filepath.Join(dir, "ship.db"), nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	store, err := storage.New(db, &storage.Options{Mode: fencing.Classic})
	if err != nil {
		return err
	}
	return story(ctx, out, locks, store)
}

// take takes the lock and makes its number the store's mark. Only then may the holder read: from
// here on, whatever an earlier holder still writes is refused.
func take(ctx context.Context, locks service, store *storage.Store) (fencing.Token, grant, error) {
	g, err := locks.lock(ctx, ship, ttl)
	if err != nil {
		return fencing.Token{}, g, err
	}
	t := fencing.Token{Resource: ship, Number: g.number} // without a grant id: the number is all there is
	if err := store.Raise(ctx, t); err != nil {
		return t, g, errors.Join(err, g.unlock(ctx))
	}
	return t, g, nil
}

// story is that of the late holder: A is paused until its lock has ended, and B is at work.
func story(ctx context.Context, out io.Writer, locks service, store *storage.Store) error {
	t, first, err := take(ctx, locks, store)
	if err != nil {
		return err
	}
	if _, err := store.Put(ctx, t, left, storage.Counter(10)); err != nil {
		return err
	}
	if err := first.unlock(ctx); err != nil {
		return err
	}

	a, _, err := take(ctx, locks, store)
	if err != nil {
		return err
	}
	seen, err := read(ctx, store, a)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "A holds %d, reads %d, and is paused\n", a.Number, seen)

	b, hold, err := take(ctx, locks, store) // waits until the lock service gives A up
	if err != nil {
		return err
	}
	n, err := read(ctx, store, b)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "B holds %d, reads %d, and is about to write\n", b.Number, n)

	// B has written nothing yet. What refuses A is the raise before B's first read.
	_, err = store.Put(ctx, a, left, storage.Counter(seen-1))
	stale, ok := errors.AsType[*fencing.StaleError](err)
	if !ok {
		return fmt.Errorf("the late write of A was not refused: %w", err)
	}
	fmt.Fprintf(out, "A wakes up, writes %d with %d, and is refused: the store has seen %d\n", seen-1, a.Number, stale.Highest)

	if _, err := store.Put(ctx, b, left, storage.Counter(n-1)); err != nil {
		return err
	}
	fmt.Fprintf(out, "B writes %d with %d\n", n-1, b.Number)
	if err := hold.unlock(ctx); err != nil {
		return err
	}

	// A starts over: lock, raise, read, write.
	a, hold, err = take(ctx, locks, store)
	if err != nil {
		return err
	}
	if n, err = read(ctx, store, a); err != nil {
		return err
	}
	if _, err := store.Put(ctx, a, left, storage.Counter(n-1)); err != nil {
		return err
	}
	fmt.Fprintf(out, "A holds %d, reads %d, writes %d\n2 places were taken, %d are left of 10\n", a.Number, n, n-1, n-1)
	return hold.unlock(ctx)
}

// read reads how many places are left, inside the fence.
func read(ctx context.Context, store *storage.Store, t fencing.Token) (int64, error) {
	rec, err := store.GetFenced(ctx, t, left)
	if err != nil {
		return 0, err
	}
	n, ok := storage.ParseCounter(rec.Value)
	if !ok {
		return 0, fmt.Errorf("%s/%s is not a number", ship, left)
	}
	return n, nil
}
