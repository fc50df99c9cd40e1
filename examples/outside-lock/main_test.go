package main

import (
	"context"
	"errors"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/storage"
	"github.com/fencegate/fencegate/storage/memstore"
)

// want is what the story prints; the numbers are the lock service's affair.
var want = regexp.MustCompile(`^A holds (\d+), reads 10, and is paused
B holds (\d+), reads 10, and is about to write
A wakes up, writes 9 with (\d+), and is refused: the store has seen (\d+)
B writes 9 with (\d+)
A holds (\d+), reads 9, writes 8
2 places were taken, 8 are left of 10
$`)

func classic(t *testing.T) *storage.Store {
	t.Helper()
	store, err := storage.New(memstore.New(nil), &storage.Options{Mode: fencing.Classic})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// services starts both.
func services(t *testing.T) map[string]service {
	t.Helper()
	program, err := exec.LookPath("etcd")
	if err != nil {
		t.Fatal("etcd is not installed: run `make deps` (Debian package etcd-server)")
	}
	real, end, err := startEtcd(t.Context(), program, t.TempDir()+"/etcd")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(end)
	small, end, err := startStandIn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(end)
	return map[string]service{"etcd": real, "stand-in": small}
}

func TestStory(t *testing.T) {
	t.Parallel()
	for name, locks := range services(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			if err := story(t.Context(), &out, locks, classic(t)); err != nil {
				t.Fatal(err)
			}
			m := want.FindStringSubmatch(out.String())
			if m == nil {
				t.Fatalf("got\n%s", out.String())
			}
			if a, b := m[1], m[2]; m[3] != a || m[4] != b || m[5] != b || m[6] == a || m[6] == b {
				t.Errorf("the numbers do not fit together:\n%s", out.String())
			}
		})
	}
}

// TestNumbersGrow: from grant to grant, whatever the name of the lock.
func TestNumbersGrow(t *testing.T) {
	t.Parallel()
	for name, locks := range services(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var last int64
			for _, lock := range []string{"ship:1", "ship:2", "ship:1", "ship:1"} {
				g, err := locks.lock(t.Context(), lock, time.Minute)
				if err != nil {
					t.Fatal(err)
				}
				if g.number <= last {
					t.Errorf("%s: got %d after %d", lock, g.number, last)
				}
				last = g.number
				if lock == "ship:2" {
					continue // never given back
				}
				if err := g.unlock(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// TestGivesUp: who stops waiting leaves nothing in line.
func TestGivesUp(t *testing.T) {
	t.Parallel()
	for name, locks := range services(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			held, err := locks.lock(t.Context(), ship, time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			if g, err := locks.lock(short, ship, time.Minute); err == nil {
				t.Errorf("got %d while %d holds it", g.number, held.number)
			}
			if err := held.unlock(t.Context()); err != nil {
				t.Fatal(err)
			}
			soon, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			if _, err := locks.lock(soon, ship, time.Minute); err != nil {
				t.Errorf("the lock is free: got %v", err)
			}
		})
	}
}

// TestWithoutTheRaise is what the README warns of: B looks without raising, and the late write of A
// is accepted between B's read and B's write. An update is lost with perfect numbers.
func TestWithoutTheRaise(t *testing.T) {
	t.Parallel()
	ctx, store := t.Context(), classic(t)
	a, b := fencing.Token{Resource: ship, Number: 33}, fencing.Token{Resource: ship, Number: 34}
	if _, err := store.Put(ctx, a, left, storage.Counter(10)); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Get(ctx, ship, left); err != nil { // B reads 10, outside the fence
		t.Fatal(err)
	}
	if _, err := store.Put(ctx, a, left, storage.Counter(9)); err != nil { // A takes a place
		t.Errorf("got %v: the README says that it is accepted", err)
	}
	if _, err := store.Put(ctx, b, left, storage.Counter(9)); err != nil { // and B the same one
		t.Error(err)
	}
	if _, err := store.Put(ctx, a, left, storage.Counter(8)); !errors.Is(err, fencing.ErrStale) {
		t.Errorf("after B's write: got %v, want ErrStale", err)
	}
}

// TestRestored: a lock service that went back to an old copy gives out numbers that the store
// refuses, until they are above the mark again. Safe, and at a standstill.
func TestRestored(t *testing.T) {
	t.Parallel()
	store := classic(t)
	if err := store.Raise(t.Context(), fencing.Token{Resource: ship, Number: 1000}); err != nil {
		t.Fatal(err)
	}
	locks, end, err := startStandIn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	if _, _, err := take(t.Context(), locks, store); !errors.Is(err, fencing.ErrStale) {
		t.Errorf("got %v, want ErrStale", err)
	}
	g, err := locks.lock(t.Context(), ship, time.Minute)
	if err != nil || g.number != 2 {
		t.Errorf("the refused holder left its lock behind: got %d, %v", g.number, err)
	}
}
