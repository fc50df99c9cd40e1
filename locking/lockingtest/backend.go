// Package lockingtest holds the conformance suites for lock stores (RunBackend) and for
// issuers (RunIssuer), and Flaky, which loses calls and replies on purpose.
package lockingtest

import (
	"errors"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/locking"
)

// BackendHarness connects a lock store to the suite.
type BackendHarness struct {
	// New returns a backend. Backends of one test may share a server: every test has
	// resources of its own.
	New func(tb testing.TB) locking.Backend
	// Unique returns a resource name that no other test uses.
	Unique func(tb testing.TB, prefix string) string
	// Wakes says that New returns a locking.Waiter, Line that it keeps a line as well,
	// Transfers that it is a locking.Transferrer.
	Wakes, Line, Transfers bool
}

// long is a TTL that no test outlives, short one that a test waits for. On a busy machine, too, a
// lock can be granted, and a request get in line, before it is over.
const (
	long  = time.Minute
	short = 2 * time.Second
)

// patience is how long what was promised may take on a busy machine.
const patience = 30 * time.Second

type backendTest struct {
	BackendHarness
	*testing.T
	b        locking.Backend
	resource string
}

// RunBackend checks every promise of locking.Backend, and those of locking.Waiter and
// locking.Transferrer as far as the harness says.
func RunBackend(t *testing.T, h BackendHarness) {
	for name, fn := range map[string]func(*backendTest){
		"NumbersIncrease":              numbersIncrease,
		"FloorIsExceeded":              floorIsExceeded,
		"HeldByAnother":                heldByAnother,
		"SameGrantSameHold":            sameGrantSameHold,
		"SameGrantAboveFloor":          sameGrantAboveFloor,
		"EndedGrantIsLost":             endedGrantIsLost,
		"RenewExtends":                 renewExtends,
		"RenewNeverShortens":           renewNeverShortens,
		"RenewMatchesNumberAndGrant":   renewMatches,
		"ReleaseMatchesNumberAndGrant": releaseMatches,
		"EvictByNumber":                evictByNumber,
		"StatusShowsNoSecret":          status,
		"List":                         list,
		"NumbersRunOut":                numbersRunOut,
		"BigNumbersAreExact":           bigNumbers,
		"OneWinner":                    oneWinner,
		"EndedContextTakesNothing":     endedContext,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fn(&backendTest{BackendHarness: h, T: t, b: h.New(t), resource: h.Unique(t, "lock")})
		})
	}
	if h.Wakes || h.Line {
		runWake(t, h)
	}
	if h.Line {
		runLine(t, h)
	}
	if h.Transfers {
		runTransfer(t, h)
	}
}

func (t *backendTest) request() locking.Request {
	return locking.Request{Resource: t.resource, Grant: fencing.NewGrant(), Label: "tester", TTL: long}
}

func (t *backendTest) try(r locking.Request) (locking.Hold, error) {
	return t.b.TryAcquire(t.Context(), r)
}

func (t *backendTest) must(r locking.Request) locking.Hold {
	t.Helper()
	h, err := t.try(r)
	if err != nil {
		t.Fatalf("TryAcquire(%v) = %v", r, err)
	}
	return h
}

func (t *backendTest) wantErr(err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("got error %v, want %v", err, want)
	}
}

func (t *backendTest) wantNumber(h locking.Hold, want int64) {
	t.Helper()
	if h.Token.Number != want || h.Token.Resource != t.resource {
		t.Fatalf("got %v, want number %d", h.Token, want)
	}
}

func (t *backendTest) release(tok fencing.Token, want bool) {
	t.Helper()
	freed, err := t.b.Release(t.Context(), tok)
	if err != nil || freed != want {
		t.Fatalf("Release(%v) = %v, %v, want %v", tok, freed, err, want)
	}
}

func (t *backendTest) renew(ttl time.Duration, held ...fencing.Token) []error {
	t.Helper()
	verdicts := t.b.Renew(t.Context(), ttl, held)
	if len(verdicts) != len(held) {
		t.Fatalf("Renew of %d tokens returned %d verdicts", len(held), len(verdicts))
	}
	return verdicts
}

func (t *backendTest) status() locking.Status {
	t.Helper()
	st, err := t.b.Status(t.Context(), t.resource)
	if err != nil {
		t.Fatalf("Status: %v", err)
	}
	return st
}

// untilFree waits until a hold has expired.
func (t *backendTest) untilFree() {
	t.Helper()
	for deadline := time.Now().Add(patience); t.status().Held; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the hold did not expire")
		}
	}
}
