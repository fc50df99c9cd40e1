package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fencegate/fencegate/fencing"
)

// Options tunes a [Store]. The zero value is the default.
type Options struct {
	// Mode is fencing.Strict or fencing.Classic. Default: fencing.Strict.
	Mode fencing.Mode
	// MaxValue is the largest value of a record in bytes, 1 B to 64 MiB. Default: 1 MiB.
	MaxValue int
	// MaxOps is the highest number of operations, and of tokens, in one commit, 1 to
	// 10,000. Default: 256.
	MaxOps int
	// OnEvent is told of raises, commits, fenced reads and refusals. Default: nobody.
	OnEvent func(fencing.Event)
}

// Store is the front of a [Backend]: validation, mode, events. It is safe for concurrent
// use and is itself a [fencing.Fence] for issuers.
type Store struct {
	b Backend
	o Options
}

var _ fencing.Fence = (*Store)(nil)

// New returns a Store over b. It closes nothing. A value outside its range is an
// [*fencing.InvalidError].
func New(b Backend, o *Options) (*Store, error) {
	if b == nil {
		return nil, &fencing.InvalidError{What: "backend", Allowed: "one, not nil"}
	}
	opt := Options{}
	if o != nil {
		opt = *o
	}
	if opt.MaxValue == 0 {
		opt.MaxValue = 1 << 20
	}
	if opt.MaxOps == 0 {
		opt.MaxOps = 256
	}
	switch {
	case opt.Mode != fencing.Strict && opt.Mode != fencing.Classic:
		return nil, &fencing.InvalidError{What: "mode", Got: opt.Mode.String(), Allowed: "strict or classic"}
	case opt.MaxValue < 1 || opt.MaxValue > 64<<20:
		return nil, &fencing.InvalidError{What: "MaxValue", Allowed: "1 byte to 64 MiB"}
	case opt.MaxOps < 1 || opt.MaxOps > 10000:
		return nil, &fencing.InvalidError{What: "MaxOps", Allowed: "1 to 10000"}
	}
	return &Store{b: b, o: opt}, nil
}

// Mode returns the store's mode.
func (s *Store) Mode() fencing.Mode { return s.o.Mode }

// Commit applies all operations of c, or none. See the package's Errors; the outcome of
// an error is told by [fencing.OutcomeOf].
func (s *Store) Commit(ctx context.Context, c Commit) (Result, error) {
	start := time.Now()
	c, err := s.prepare(c)
	if err != nil {
		return Result{}, err
	}
	for _, t := range c.Tokens {
		if err = s.enter(ctx, t); err == nil {
			continue
		}
		if c.Key != "" && s.o.Mode == fencing.Classic && errors.Is(err, fencing.ErrStale) {
			err = nil // it may have been applied under this key: the backend looks, then refuses it as well
			continue
		}
		break
	}
	var res Result
	if err == nil {
		out := s.b.Apply(ctx, []Commit{c})
		res, err = out[0].Result, out[0].Err
	}
	kind := fencing.EventApplied
	if res.Replayed {
		kind = fencing.EventReplayed
	}
	stale, _ := errors.AsType[*fencing.StaleError](err)
	for _, t := range c.Tokens {
		if stale == nil || stale.Token == t { // the other tokens were not at fault
			s.report(kind, t, start, err)
		}
	}
	return res, err
}

// Put sets one record and returns its new version: Commit with one [Put].
func (s *Store) Put(ctx context.Context, t fencing.Token, key string, value []byte) (version int64, err error) {
	res, err := s.Commit(ctx, Commit{Tokens: []fencing.Token{t}, Ops: []Op{Put(t.Resource, key, value)}})
	if err != nil {
		return 0, err
	}
	return res.Ops[0].Version, nil
}

// Get returns a record, or [ErrNotFound]. It is a plain read: see the package's What is
// not guaranteed.
func (s *Store) Get(ctx context.Context, resource, key string) (Record, error) {
	if err := errors.Join(fencing.ValidateResource(resource), fencing.ValidateKey(key)); err != nil {
		return Record{}, err
	}
	return s.b.Get(ctx, resource, key)
}

// GetFenced returns a record of t's resource, read in the same atomic step in which t
// was found to be the mark. The error is a [*fencing.StaleError] if it is not, and
// [ErrNotFound] if it is and there is no record.
func (s *Store) GetFenced(ctx context.Context, t fencing.Token, key string) (Record, error) {
	start := time.Now()
	if err := errors.Join(t.Validate(), fencing.ValidateKey(key)); err != nil {
		return Record{}, err
	}
	err := s.enter(ctx, t)
	var rec Record
	if err == nil {
		rec, err = s.b.GetFenced(ctx, t, key)
	}
	if errors.Is(err, ErrNotFound) {
		s.report(fencing.EventRead, t, start, nil)
		return rec, err
	}
	s.report(fencing.EventRead, t, start, err)
	return rec, err
}

// List returns up to limit (1..1000) records of a resource whose keys begin with prefix
// (which may be empty) and come after the key after (empty: from the start), sorted by
// key as bytes. It is a plain read.
func (s *Store) List(ctx context.Context, resource, prefix, after string, limit int) ([]Record, error) {
	err := fencing.ValidateResource(resource)
	if prefix != "" {
		err = errors.Join(err, fencing.ValidateKey(prefix))
	}
	if after != "" {
		err = errors.Join(err, fencing.ValidateKey(after))
	}
	if limit < 1 || limit > 1000 {
		err = errors.Join(err, &fencing.InvalidError{What: "limit", Allowed: "1 to 1000"})
	}
	if err != nil {
		return nil, err
	}
	return s.b.List(ctx, resource, prefix, after, limit)
}

// prepare validates c and returns it with its tokens sorted by resource.
func (s *Store) prepare(c Commit) (Commit, error) {
	if n := len(c.Ops); n < 1 || n > s.o.MaxOps {
		return c, invalid("commit", "1 to %d operations", s.o.MaxOps)
	}
	if n := len(c.Tokens); n > s.o.MaxOps {
		return c, invalid("commit", "at most %d tokens", s.o.MaxOps)
	}
	if len(c.Tokens) > 1 {
		c.Tokens = slices.Clone(c.Tokens)
		slices.SortFunc(c.Tokens, func(a, b fencing.Token) int { return cmp.Compare(a.Resource, b.Resource) })
	}
	if c.Key != "" {
		if err := fencing.ValidateKey(c.Key); err != nil {
			return c, fmt.Errorf("idempotency key: %w", err)
		}
		if len(c.Tokens) == 0 {
			return c, invalid("commit", "one token or more, for its key")
		}
	}
	for i, t := range c.Tokens {
		if err := t.Validate(); err != nil {
			return c, err
		}
		if i > 0 && c.Tokens[i-1].Resource == t.Resource {
			return c, invalid("commit", "one token for %s, not two", t.Resource)
		}
	}
	size := 0
	var changed map[RecordID]bool
	if len(c.Ops) > 1 {
		changed = make(map[RecordID]bool, len(c.Ops))
	}
	for i, op := range c.Ops {
		if err := s.validate(op); err != nil {
			return c, err
		}
		if !c.hasToken(op.Resource) {
			return c, invalid("commit", "a token for %s, which operation %d needs", op.Resource, i)
		}
		if op.Changes() && changed != nil {
			if changed[op.ID()] {
				return c, invalid("commit", "one change of %s/%s, not two", op.Resource, op.Key)
			}
			changed[op.ID()] = true
		}
		if size += len(op.Value); size > MaxCommit {
			return c, invalid("commit", "values of at most %d MiB together", MaxCommit>>20)
		}
	}
	if c.Key != "" {
		f := c.Fingerprint()
		c.fingerprint = &f
	}
	return c, nil
}

// hasToken looks among tokens that are sorted by resource.
func (c Commit) hasToken(resource string) bool {
	_, ok := slices.BinarySearchFunc(c.Tokens, resource, func(t fencing.Token, resource string) int {
		return cmp.Compare(t.Resource, resource)
	})
	return ok
}

func (s *Store) validate(op Op) error {
	if err := errors.Join(fencing.ValidateResource(op.Resource), fencing.ValidateKey(op.Key)); err != nil {
		return err
	}
	switch op.Kind {
	case KindPut:
		if len(op.Value) > s.o.MaxValue {
			return invalid("value", "at most %d bytes", s.o.MaxValue)
		}
	case KindDelete:
	case KindAdd:
		if op.Delta < -MaxCounter || op.Delta > MaxCounter {
			return invalid("delta", "-%d to %d", MaxCounter, MaxCounter)
		}
		if op.Min < -MaxCounter || op.Min > MaxCounter {
			return invalid("minimum", "-%d to %d", MaxCounter, MaxCounter)
		}
	case KindRequire:
		if op.Version < 0 {
			return invalid("version", "0 or more")
		}
	default:
		return invalid("operation", "put, delete, add or require")
	}
	return nil
}
