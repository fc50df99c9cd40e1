package fault

import (
	"context"
	_ "embed" // the library's source
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fencegate/fencegate/internal/torture/history"
	"github.com/fencegate/fencegate/internal/torture/rig"
)

//go:embed shim/slowsync.c
var slowSyncSource []byte

// slowSync makes fsync and fdatasync of a server slow, by a library that is loaded before the system's (LD_PRELOAD) and
// looks for a file in the directory of the server's data at each call. env returns the environment of such servers in a
// spec; where returns a server's name and directory, or false for one that is not the run's own.
func slowSync(name string, fits func(rig.Spec) bool, env func(*rig.Spec) *[]string, where func(*rig.Rig, *rand.Rand) (string, string, bool)) Fault {
	return Fault{
		Name: name,
		What: "the disk is slow: each fsync of the server takes up to 60 ms longer",
		Expect: "everything is slower, leases run out while their holders wait, and what comes too late is refused; " +
			"nothing is acknowledged that is not on the disk",
		Own: true, Fits: fits, Hold: 1500 * time.Millisecond,
		// After an error the servers start without the library, and Inject says why.
		Prepare: func(s *rig.Spec) { _ = prepareSlowSync(env(s)) },
		Inject: func(ctx context.Context, r *rig.Rig, rnd *rand.Rand, note *history.Fault) (healing, error) {
			if had := *env(&r.Spec); !preloaded(had) {
				if err := prepareSlowSync(&had); err != nil {
					return nil, err // as it was before the servers were started
				}
				return nil, errors.New("the servers were started without the library: was the fault prepared?")
			}
			what, dir, ok := where(r, rnd)
			if !ok {
				return nil, errors.New("the server is not the run's own")
			}
			delay := about(rnd, 40*time.Millisecond)
			note.Detail = fmt.Sprintf("%s, by %v", what, delay.Round(time.Millisecond))
			path := filepath.Join(dataDir(dir), slowSyncFile)
			done := path + "-done"
			heal := func(context.Context) error {
				slowed, err := os.Stat(done)
				if err = errors.Join(err, os.Remove(path), os.Remove(done)); err != nil {
					return err
				}
				note.Detail += fmt.Sprintf(", %d times", slowed.Size())
				return atLeastOne(ctx, int(slowed.Size()), "no fsync of the server was slow: the library does not work there, or nothing was written")
			}
			// The server's user must be able to write the one and read the other.
			err := errors.Join(os.WriteFile(done, nil, 0o600), os.Chmod(done, 0o666)) //nolint:gosec // see above
			if err == nil {
				err = os.WriteFile(path, []byte(strconv.Itoa(int(delay.Milliseconds()))), 0o644) //nolint:gosec // see above
			}
			if err != nil {
				_, _ = os.Remove(path), os.Remove(done) // perhaps they are not there
				return nil, err
			}
			return heal, nil
		},
	}
}

// prepareSlowSync adds the library to an environment, unless it is there. A *VoidError says why it cannot.
func prepareSlowSync(env *[]string) error {
	if preloaded(*env) {
		return nil
	}
	path, err := library("slowsync", slowSyncSource)
	if err != nil {
		return err
	}
	*env = preload(*env, path)
	return nil
}

// slowSyncLibrary is the library's name.
const slowSyncLibrary = "slowsync.so"

// preloaded reports whether a server with this environment loads the library.
func preloaded(env []string) bool {
	last := "" // of several it is the last that counts
	for _, e := range env {
		if list, ok := strings.CutPrefix(e, preloadName); ok {
			last = list
		}
	}
	return slices.ContainsFunc(strings.Split(last, ":"), func(path string) bool { return filepath.Base(path) == slowSyncLibrary })
}

// slowSyncFile is the name of the file that says how many milliseconds each fsync takes longer. Another one, "-done" after
// its name, grows by a byte with each fsync that did.
const slowSyncFile = "torture-slow-fsync"

// dataDir is where a server of testenv works.
func dataDir(dir string) string {
	if volume := filepath.Join(dir, "volume", "data"); exists(volume) {
		return volume
	}
	return filepath.Join(dir, "data")
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
