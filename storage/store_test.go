package storage_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/storage"
	"github.com/fencegate/fencegate/storage/memstore"
)

// spy is a backend that notes its calls, and can be told what to answer.
type spy struct {
	storage.Backend
	mu    sync.Mutex // guards calls
	calls []string
	fail  error // what everything but Mark returns, if set
}

func (s *spy) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, fmt.Sprintf(format, args...))
}

func (s *spy) Raise(ctx context.Context, t fencing.Token) error {
	s.note("raise %v", t)
	if s.fail != nil {
		return s.fail
	}
	return s.Backend.Raise(ctx, t)
}

func (s *spy) Retire(ctx context.Context, t fencing.Token) error {
	s.note("retire %v", t)
	return s.Backend.Retire(ctx, t)
}

func (s *spy) Evict(ctx context.Context, t fencing.Token) error {
	s.note("evict %v", t)
	return s.Backend.Evict(ctx, t)
}

func (s *spy) Mark(ctx context.Context, resource string) (fencing.Mark, error) {
	s.note("mark %s", resource)
	return s.Backend.Mark(ctx, resource)
}

func (s *spy) Apply(ctx context.Context, batch []storage.Commit) []storage.Outcome {
	for _, c := range batch {
		s.note("apply %v", c.Tokens)
	}
	if s.fail != nil {
		return []storage.Outcome{{Err: s.fail}}
	}
	return s.Backend.Apply(ctx, batch)
}

func (s *spy) Get(ctx context.Context, resource, key string) (storage.Record, error) {
	s.note("get %s/%s", resource, key)
	return s.Backend.Get(ctx, resource, key)
}

func (s *spy) GetFenced(ctx context.Context, t fencing.Token, key string) (storage.Record, error) {
	s.note("read %v/%s", t, key)
	if s.fail != nil {
		return storage.Record{}, s.fail
	}
	return s.Backend.GetFenced(ctx, t, key)
}

func (s *spy) List(ctx context.Context, resource, prefix, after string, limit int) ([]storage.Record, error) {
	s.note("list %s %q %q %d", resource, prefix, after, limit)
	return s.Backend.List(ctx, resource, prefix, after, limit)
}

// taken returns the calls since the last time.
func (s *spy) taken() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	calls := strings.Join(s.calls, ", ")
	s.calls = nil
	return calls
}

func open(t *testing.T, o *storage.Options) (*storage.Store, *spy) {
	t.Helper()
	b := &spy{Backend: memstore.New(nil)}
	s, err := storage.New(b, o)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	return s, b
}

func token(resource string, number int64) fencing.Token {
	return fencing.Token{Resource: resource, Number: number, Grant: grantA}
}

// TestLargestCommit: the values of a commit have a limit together, too.
func TestLargestCommit(t *testing.T) {
	t.Parallel()
	s, b := open(t, &storage.Options{MaxValue: 64 << 20})
	b.fail = fencing.AsFailed(errors.New("it came as far as the backend"))
	r, value := token("r", 34), make([]byte, 64<<20)
	for n, allowed := range map[int]bool{4: true, 5: false} {
		var ops []storage.Op
		for i := range n {
			ops = append(ops, storage.Put("r", fmt.Sprint("k", i), value))
		}
		_, err := s.Commit(t.Context(), storage.Commit{Tokens: []fencing.Token{r}, Ops: ops})
		if errors.Is(err, fencing.ErrInvalid) == allowed {
			t.Errorf("%d values of 64 MiB: got %v, want allowed = %t", n, err, allowed)
		}
	}
}

func TestNewRefusesBadOptions(t *testing.T) {
	t.Parallel()
	b := memstore.New(nil)
	for name, o := range map[string]storage.Options{
		"mode":              {Mode: 2},
		"negative mode":     {Mode: -1},
		"MaxValue":          {MaxValue: 64<<20 + 1},
		"negative MaxValue": {MaxValue: -1},
		"MaxOps":            {MaxOps: 10001},
		"negative MaxOps":   {MaxOps: -1},
	} {
		if s, err := storage.New(b, &o); !errors.Is(err, fencing.ErrInvalid) || s != nil {
			t.Errorf("%s: got %v, %v, want an *InvalidError", name, s, err)
		}
	}
	if s, err := storage.New(nil, nil); !errors.Is(err, fencing.ErrInvalid) || s != nil {
		t.Errorf("no backend: got %v, %v, want an *InvalidError", s, err)
	}
	for name, o := range map[string]*storage.Options{
		"nil": nil, "zero": {}, "most": {Mode: fencing.Classic, MaxValue: 64 << 20, MaxOps: 10000}, "least": {MaxValue: 1, MaxOps: 1},
	} {
		if _, err := storage.New(b, o); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestDefaults: strict, 1 MiB, 256 operations, as the fields say.
func TestDefaults(t *testing.T) {
	t.Parallel()
	s, _ := open(t, nil)
	if got := s.Mode(); got != fencing.Strict {
		t.Errorf("got the mode %v, want strict", got)
	}
	held := token("r", 1)
	if err := s.Raise(t.Context(), held); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Put(t.Context(), held, "a", make([]byte, 1<<20)); err != nil {
		t.Errorf("1 MiB: %v", err)
	}
	if _, err := s.Put(t.Context(), held, "a", make([]byte, 1<<20+1)); !errors.Is(err, fencing.ErrInvalid) {
		t.Errorf("1 MiB and a byte: got %v, want an *InvalidError", err)
	}
	var ops []storage.Op
	for i := range 257 {
		ops = append(ops, storage.Delete("r", fmt.Sprintf("k%d", i)))
	}
	if _, err := s.Commit(t.Context(), storage.Commit{Tokens: []fencing.Token{held}, Ops: ops[:256]}); err != nil {
		t.Errorf("256 operations: %v", err)
	}
	if _, err := s.Commit(t.Context(), storage.Commit{Tokens: []fencing.Token{held}, Ops: ops}); !errors.Is(err, fencing.ErrInvalid) {
		t.Errorf("257 operations: got %v, want an *InvalidError", err)
	}
}

func TestOwnLimits(t *testing.T) {
	t.Parallel()
	s, b := open(t, &storage.Options{MaxValue: 3, MaxOps: 2})
	x := token("x", 1)
	three := []fencing.Token{x, token("y", 1), token("z", 1)}
	for _, c := range []storage.Commit{
		{Tokens: []fencing.Token{x}, Ops: []storage.Op{storage.Put("x", "a", []byte("four"))}},
		{Tokens: three, Ops: []storage.Op{storage.Put("x", "a", nil)}},
		{Tokens: []fencing.Token{x}, Ops: []storage.Op{storage.Delete("x", "a"), storage.Delete("x", "b"), storage.Delete("x", "c")}},
	} {
		if _, err := s.Commit(t.Context(), c); !errors.Is(err, fencing.ErrInvalid) {
			t.Errorf("got %v, want an *InvalidError", err)
		}
	}
	if got := b.taken(); got != "" {
		t.Errorf("the backend was asked: %s", got)
	}
}

// TestPlainReadsKeepTheirArguments: what is valid arrives as it came.
func TestPlainReadsKeepTheirArguments(t *testing.T) {
	t.Parallel()
	s, b := open(t, nil)
	_, _ = s.Get(t.Context(), "r", "k")
	_, _ = s.List(t.Context(), "r", "p", "a", 1000)
	_, _ = s.List(t.Context(), "r", "", "", 1)
	_, _ = s.Mark(t.Context(), "r")
	_ = s.Retire(t.Context(), token("r", 1))
	_ = s.Evict(t.Context(), token("r", 1))
	want := `get r/k, list r "p" "a" 1000, list r "" "" 1, mark r, retire r#1, evict r#1`
	if got := b.taken(); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestBadArgumentsStayOutside: the backend never sees an argument outside its grammar.
func TestBadArgumentsStayOutside(t *testing.T) {
	t.Parallel()
	for _, mode := range []fencing.Mode{fencing.Strict, fencing.Classic} {
		s, b := open(t, &storage.Options{Mode: mode})
		ctx := t.Context()
		_, get := s.Get(ctx, "a/b", "k")
		_, getKey := s.Get(ctx, "r", "")
		_, list := s.List(ctx, "", "", "", 1)
		_, listPrefix := s.List(ctx, "r", "%", "", 1)
		_, listAfter := s.List(ctx, "r", "", "a b", 1)
		_, listLimit := s.List(ctx, "r", "", "", 1001)
		_, mark := s.Mark(ctx, "a b")
		_, read := s.GetFenced(ctx, token("r", 0), "k")
		_, readKey := s.GetFenced(ctx, token("r", 1), "a/b")
		_, put := s.Put(ctx, token("r", 1), "", nil)
		for i, err := range []error{
			get, getKey, list, listPrefix, listAfter, listLimit, mark, read, readKey, put,
			s.Raise(ctx, token("r", 0)), s.Retire(ctx, token("", 1)), s.Evict(ctx, token("r", fencing.MaxNumber+1)),
		} {
			if !errors.Is(err, fencing.ErrInvalid) || fencing.OutcomeOf(err) != fencing.Refused {
				t.Errorf("%v, call %d: got %v, want an *InvalidError", mode, i, err)
			}
		}
		if got := b.taken(); got != "" {
			t.Errorf("%v: the backend was asked: %s", mode, got)
		}
	}
}

// TestOrder: tokens reach the backend sorted, whatever their order, and the caller's
// slice stays as it was. A classic store raises each before it applies.
func TestOrder(t *testing.T) {
	t.Parallel()
	for mode, want := range map[fencing.Mode]string{
		fencing.Strict:  "apply [a#1 b#2 c#3]",
		fencing.Classic: "raise a#1, raise b#2, raise c#3, apply [a#1 b#2 c#3]",
	} {
		s, b := open(t, &storage.Options{Mode: mode})
		for _, held := range []fencing.Token{token("a", 1), token("b", 2), token("c", 3)} {
			if err := b.Backend.Raise(t.Context(), held); err != nil {
				t.Fatal(err)
			}
		}
		tokens := []fencing.Token{token("c", 3), token("a", 1), token("b", 2)}
		if _, err := s.Commit(t.Context(), storage.Commit{Tokens: tokens, Ops: []storage.Op{storage.Put("a", "x", nil)}}); err != nil {
			t.Errorf("%v: %v", mode, err)
		}
		if got := b.taken(); got != want {
			t.Errorf("%v: got %s, want %s", mode, got, want)
		}
		if tokens[0].Resource != "c" || tokens[1].Resource != "a" {
			t.Errorf("%v: the caller's tokens were moved: %v", mode, tokens)
		}
	}
}

// TestClassicRaisesFirst: where the raise is refused, nothing is asked of the data.
func TestClassicRaisesFirst(t *testing.T) {
	t.Parallel()
	s, b := open(t, &storage.Options{Mode: fencing.Classic})
	ctx := t.Context()
	if err := s.Raise(ctx, token("r", 34)); err != nil {
		t.Fatal(err)
	}
	b.taken()
	old := token("r", 33)
	_, err := s.Put(ctx, old, "a", nil)
	_, readErr := s.GetFenced(ctx, old, "a")
	if !errors.Is(err, fencing.ErrStale) || !errors.Is(readErr, fencing.ErrStale) {
		t.Errorf("got %v, %v, want two *StaleErrors", err, readErr)
	}
	if got, want := b.taken(), "raise r#33, raise r#33"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestStrictGrantRequired: a plain number is refused before the backend judges anything,
// with the highest number, and costs the others nothing.
func TestStrictGrantRequired(t *testing.T) {
	t.Parallel()
	s, b := open(t, nil)
	ctx := t.Context()
	if err := s.Raise(ctx, token("r", 34)); err != nil {
		t.Fatal(err)
	}
	b.taken()
	for _, n := range []int64{33, 34, 35} {
		plain := fencing.Token{Resource: "r", Number: n}
		_, put := s.Put(ctx, plain, "a", nil)
		_, read := s.GetFenced(ctx, plain, "a")
		for _, err := range []error{put, read, s.Raise(ctx, plain)} {
			stale, ok := errors.AsType[*fencing.StaleError](err)
			if !ok || *stale != (fencing.StaleError{Token: plain, Highest: 34, Reason: fencing.GrantRequired}) {
				t.Errorf("with %v: got %v, want grant required", plain, err)
			}
		}
	}
	if got := b.taken(); strings.Contains(got, "raise") || strings.Contains(got, "apply") || strings.Contains(got, "read") {
		t.Errorf("the backend was asked: %s", got)
	}
	if _, err := s.Put(ctx, token("r", 34), "a", nil); err != nil {
		t.Error(err)
	}
	if got, want := b.taken(), "apply [r#34]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestPutReturnsTheVersion(t *testing.T) {
	t.Parallel()
	s, _ := open(t, nil)
	held := token("r", 1)
	if v, err := s.Put(t.Context(), held, "a", nil); !errors.Is(err, fencing.ErrStale) || v != 0 {
		t.Errorf("got %d, %v, want 0, a *StaleError", v, err)
	}
	if err := s.Raise(t.Context(), held); err != nil {
		t.Fatal(err)
	}
	for want := int64(1); want < 4; want++ {
		if got, err := s.Put(t.Context(), held, "a", nil); err != nil || got != want {
			t.Errorf("got %d, %v, want %d", got, err, want)
		}
	}
}

// TestOutcomesPassThrough: what the backend says of the outcome is not changed on the way.
func TestOutcomesPassThrough(t *testing.T) {
	t.Parallel()
	cause := errors.New("connection reset")
	for _, c := range []struct {
		err  error
		want fencing.Outcome
	}{
		{cause, fencing.Unknown}, {fencing.AsUnknown(cause), fencing.Unknown}, {fencing.AsFailed(cause), fencing.Failed},
	} {
		for _, mode := range []fencing.Mode{fencing.Strict, fencing.Classic} {
			s, b := open(t, &storage.Options{Mode: mode})
			b.fail = c.err
			_, put := s.Put(t.Context(), token("r", 1), "a", nil)
			_, read := s.GetFenced(t.Context(), token("r", 1), "a")
			for _, err := range []error{put, read, s.Raise(t.Context(), token("r", 1))} {
				if got := fencing.OutcomeOf(err); got != c.want || !errors.Is(err, cause) {
					t.Errorf("got %v (%v), want %v", err, got, c.want)
				}
			}
		}
	}
}

func TestRefusedErrorTexts(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]*storage.RefusedError{
		"operation 2 on r/a refused: the version is 3, not 4":                                {Op: 2, Resource: "r", Key: "a", Reason: storage.ErrVersionMismatch, Have: 3, Want: 4},
		"operation 0 on r/a refused: the counter is 1 and would fall below 0":                {Resource: "r", Key: "a", Reason: storage.ErrBelowMinimum, Have: 1},
		"operation 0 on r/a refused: the value is not an integer in decimal text":            {Resource: "r", Key: "a", Reason: storage.ErrNotCounter},
		"operation 0 on r/a refused: the sum is outside -9007199254740991..9007199254740991": {Resource: "r", Key: "a", Reason: storage.ErrCounterRange},
	} {
		if got := err.Error(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if !errors.Is(err, err.Reason) || fencing.OutcomeOf(fmt.Errorf("wrapped: %w", err)) != fencing.Refused {
			t.Errorf("%v: not its reason, or not refused", err)
		}
	}
}
