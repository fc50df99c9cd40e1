package fault

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/fencegate/fencegate/internal/torture/history"
	"github.com/fencegate/fencegate/internal/torture/rig"
)

// diskSize is that of the store's small disk. Postgres needs 150 MB to begin with.
const diskSize = 320 << 20

func diskFaults() []Fault {
	return []Fault{{
		Name: "disk-full",
		What: "the disk of the store is full; later there is room again, and a server that ended is started",
		Expect: "what could not be written has failed or is unknown, and was not acknowledged; what was acknowledged is " +
			"there afterwards",
		// Postgres, if it ends, takes row locks with it.
		Loses: []history.Loss{history.LosesLocks},
		Own:   true,
		Fits:  func(s rig.Spec) bool { return s.Store == "redis" || s.Store == "postgres" || s.Store == "sqlite" },
		Prepare: func(s *rig.Spec) {
			if mayMount() {
				s.SmallDisk = diskSize
				set(s, "max_wal_size = 64MB")
				set(s, "min_wal_size = 32MB")
			}
		},
		Hold: 800 * time.Millisecond, Inject: fillDisk,
	}}
}

// mayMount reports whether this process can make a small file system.
func mayMount() bool { return runtime.GOOS == "linux" && os.Geteuid() == 0 }

func fillDisk(ctx context.Context, r *rig.Rig, rnd *rand.Rand, note *history.Fault) (healing, error) {
	dir := r.SmallDiskDir()
	if dir == "" {
		return nil, Void("only root can give the store a small disk, on Linux")
	}
	if !exists(dir) {
		return nil, Void("the store has moved to a server on the usual disk")
	}
	f, err := os.OpenFile(filepath.Join(dir, "torture-filler"), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	note.Loses = cutLoses(r.Spec)
	size, err := fill(f)
	note.Detail = fmt.Sprintf("%d MB were free", size>>20)
	stop := func() (int, error) { return 0, nil }
	if err == nil {
		// What the server gives back is filled, too.
		stop = repeat(ctx, rnd, 20*time.Millisecond, func(context.Context, *rand.Rand) (bool, error) {
			more, err := fill(f)
			return more > 0, err
		})
	}
	return func(ctx context.Context) error {
		_, err := stop()
		return errors.Join(err, f.Close(), os.Remove(f.Name()), bringBack(ctx, r, note))
	}, err
}

// fill writes to a file until there is no more room.
func fill(f *os.File) (size int64, err error) {
	for block := make([]byte, 1<<20); len(block) >= 512; {
		n, err := f.Write(block)
		size += int64(n)
		if err != nil {
			block = block[:len(block)/2] // perhaps there is room for less
		}
		if size > diskSize {
			return size, fmt.Errorf("the disk has more room than %d MB", diskSize>>20)
		}
	}
	return size, nil
}

// bringBack starts the store's server again if it has ended for want of room.
func bringBack(ctx context.Context, r *rig.Rig, note *history.Fault) error {
	again := func() error {
		note.Detail += "; the server had ended"
		if r.StorePostgres != nil {
			return r.Try(r.StorePostgres.Restart)
		}
		return r.Try(r.StoreRedis.Restart)
	}
	switch {
	case r.StorePostgres != nil:
		// It recovers by itself from a crash of one of its processes, or it ends.
		if until(ctx, 3*time.Second, "", func() (bool, error) {
			_, err := query[int](ctx, r, "select 1")
			return err == nil, err
		}) != nil {
			return again()
		}
	case r.StoreRedis != nil:
		if err := pingRedis(ctx, redisServer{r, r.StoreRedis, false, true}); err != nil {
			return again()
		}
	}
	return nil
}
