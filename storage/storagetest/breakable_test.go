package storagetest_test

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/storage"
	"github.com/fencegate/fencegate/storage/storagetest"
)

// breakable is a store in memory with a place to break every promise. With no field set
// it keeps them all.
type breakable struct {
	// What is broken; nil and false: nothing.
	judge      func(c storage.Commit, v storage.View) (storage.Result, storage.Changes, error)
	raise      func(m fencing.Mark, t fencing.Token) (fencing.Mark, error)
	retire     func(m fencing.Mark, t fencing.Token) fencing.Mark
	evict      func(m fencing.Mark, t fencing.Token) fencing.Mark
	current    func(m fencing.Mark, t fencing.Token) error // of fenced reads
	list       func(all []storage.Record, resource, prefix, after string, limit int) []storage.Record
	value      func(v []byte) []byte // how values are kept; default: a copy
	shown      func(v []byte) []byte // how values are given out; default: a copy
	name       func(s string) string // how keys and resources are told apart
	gap        bool                  // look at the fence first, then write
	readGap    bool                  // look at the fence first, then read
	dataGap    bool                  // look at the data first, then write
	tornWrites bool                  // apply operations one by one
	ignoreCtx  func(applied error) error
	batch      func(b *breakable, batch []storage.Commit) []storage.Outcome
	impatient  bool                                                         // raises do not wait for updates
	ownUpdates bool                                                         // updates are not rolled back
	lateCheck  bool                                                         // updates look at the fence after their function
	noUndo     bool                                                         // a panic leaves the update's writes
	keyID      func(c storage.Commit, id storage.RecordID) storage.RecordID // of a key's record
	payload    func(c storage.Commit) storage.Fingerprint
	keyGap     bool // look for the key's record first, then lock
	remembered func(a storage.Answer) storage.Answer
	remove     func(overdue []storage.RecordID, held func(storage.RecordID) bool) []storage.RecordID
	alwaysCall bool // updates do not look for their key's record before the function

	tx      sync.Mutex // held by an update, and by a raise
	mu      sync.Mutex // guards everything below
	marks   map[string]fencing.Mark
	bases   map[string]int64
	records map[storage.RecordID]storage.Record
	answers map[storage.RecordID]answer
}

type answer struct {
	storage.Answer
	resource string
	overdue  bool
}

// step is the number of overdue keys that one commit removes.
const step = 4

func newBreakable() *breakable {
	return &breakable{
		judge:  storage.Evaluate,
		raise:  fencing.Mark.Raise,
		retire: fencing.Mark.Retire,
		evict:  fencing.Mark.Evict, current: fencing.Mark.Current,
		list: listRight, value: bytes.Clone, shown: bytes.Clone,
		name:       func(s string) string { return s },
		keyID:      func(_ storage.Commit, id storage.RecordID) storage.RecordID { return id },
		payload:    storage.Commit.Fingerprint,
		remembered: func(a storage.Answer) storage.Answer { return a },
		remove:     removeRight,
		answers:    map[storage.RecordID]answer{},
		marks:      map[string]fencing.Mark{},
		bases:      map[string]int64{},
		records:    map[storage.RecordID]storage.Record{},
	}
}

func (b *breakable) id(resource, key string) storage.RecordID {
	return storage.RecordID{Resource: b.name(resource), Key: b.name(key)}
}

func (b *breakable) mark(resource string) fencing.Mark {
	if m, ok := b.marks[b.name(resource)]; ok {
		return m
	}
	return fencing.Absent(0)
}

func (b *breakable) change(ctx context.Context, t fencing.Token, op func(fencing.Mark) (fencing.Mark, error)) error {
	if err := ctx.Err(); err != nil && b.ignoreCtx == nil {
		return fencing.AsFailed(err)
	}
	if !b.impatient {
		b.tx.Lock()
		defer b.tx.Unlock()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	m, err := op(b.mark(t.Resource))
	if err == nil && m != fencing.Absent(0) {
		b.marks[b.name(t.Resource)] = m
	}
	return err
}

func (b *breakable) Raise(ctx context.Context, t fencing.Token) error {
	return b.change(ctx, t, func(m fencing.Mark) (fencing.Mark, error) { return b.raise(m, t) })
}

func (b *breakable) Retire(ctx context.Context, t fencing.Token) error {
	return b.change(ctx, t, func(m fencing.Mark) (fencing.Mark, error) { return b.retire(m, t), nil })
}

func (b *breakable) Evict(ctx context.Context, t fencing.Token) error {
	return b.change(ctx, t, func(m fencing.Mark) (fencing.Mark, error) { return b.evict(m, t), nil })
}

func (b *breakable) Mark(ctx context.Context, resource string) (fencing.Mark, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mark(resource), fencing.AsFailed(ctx.Err())
}

func (b *breakable) Apply(ctx context.Context, batch []storage.Commit) []storage.Outcome {
	if b.batch != nil {
		return b.batch(b, batch)
	}
	out := make([]storage.Outcome, len(batch))
	for i, c := range batch {
		if err := ctx.Err(); err != nil && b.ignoreCtx == nil {
			out[i].Err = fencing.AsFailed(err)
			continue
		}
		out[i].Result, out[i].Err = b.apply(c)
		if b.ignoreCtx != nil && ctx.Err() != nil && out[i].Err == nil {
			out[i].Err = b.ignoreCtx(ctx.Err())
		}
	}
	return out
}

func (b *breakable) apply(c storage.Commit) (storage.Result, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.gap {
		_, _, err := b.judge(c, b.view(c))
		if err != nil {
			return storage.Result{}, err
		}
		b.mu.Unlock()
		time.Sleep(time.Millisecond)
		b.mu.Lock()
		c.Tokens = nil
	}
	v := b.view(c)
	if b.keyGap {
		b.mu.Unlock()
		time.Sleep(time.Millisecond)
		b.mu.Lock()
		found := v.Answer
		v = b.view(c)
		v.Answer = found
	}
	if b.tornWrites {
		for i := range c.Ops {
			one := storage.Commit{Tokens: c.Tokens, Ops: c.Ops[i : i+1]}
			if _, ch, err := b.judge(one, b.view(one)); err == nil && i < len(c.Ops)-1 {
				b.write(one, ch)
			}
		}
		v = b.view(c)
	}
	res, ch, err := b.judge(c, v)
	if err != nil {
		b.write(c, storage.Changes{Answer: ch.Answer})
		return storage.Result{}, err
	}
	if b.dataGap {
		b.mu.Unlock()
		time.Sleep(time.Millisecond)
		b.mu.Lock()
	}
	b.write(c, ch)
	return res, nil
}

func (b *breakable) view(c storage.Commit) storage.View {
	v := storage.View{
		Marks: map[string]fencing.Mark{}, Bases: map[string]int64{}, Records: map[storage.RecordID]storage.Record{},
	}
	for _, t := range c.Tokens {
		v.Marks[t.Resource] = b.mark(t.Resource)
	}
	for _, op := range c.Ops {
		v.Bases[op.Resource] = b.bases[b.name(op.Resource)]
		if rec, ok := b.records[b.id(op.Resource, op.Key)]; ok {
			v.Records[op.ID()] = rec
		}
	}
	if id, ok := c.KeyID(); ok {
		if a, ok := b.answers[b.keyID(c, id)]; ok {
			found := a.Answer
			found.Result.Ops = slices.Clone(found.Result.Ops)
			if found.Fingerprint == b.payload(c) {
				found.Fingerprint = c.Fingerprint()
			} else {
				found.Fingerprint = storage.Fingerprint{}
			}
			v.Answer = &found
		}
	}
	return v
}

func (b *breakable) write(c storage.Commit, ch storage.Changes) {
	if ch.Answer != nil {
		id, _ := c.KeyID()
		a := answer{Answer: b.remembered(*ch.Answer), resource: id.Resource}
		a.Fingerprint = b.payload(c)
		b.answers[b.keyID(c, id)] = a
		b.forget(id.Resource)
	}
	for _, rec := range ch.Put {
		rec.Value = b.value(rec.Value)
		b.records[b.id(rec.Resource, rec.Key)] = rec
	}
	for _, id := range ch.Deleted {
		delete(b.records, b.id(id.Resource, id.Key))
	}
	for resource, base := range ch.Bases {
		b.bases[b.name(resource)] = base
	}
}

// forget removes overdue keys of a resource, as a commit does.
func (b *breakable) forget(resource string) {
	var overdue []storage.RecordID
	for id, a := range b.answers {
		if a.resource == resource && a.overdue {
			overdue = append(overdue, id)
		}
	}
	held := func(id storage.RecordID) bool {
		m := b.mark(resource)
		return m.Number == b.answers[id].Number && !m.Retired
	}
	for _, id := range b.remove(overdue, held) {
		delete(b.answers, id)
	}
}

func removeRight(overdue []storage.RecordID, held func(storage.RecordID) bool) []storage.RecordID {
	overdue = slices.DeleteFunc(overdue, held)
	return overdue[:min(len(overdue), step)]
}

// aged makes the keys of a resource overdue.
func aged(_ testing.TB, s storagetest.Subject, resource string) {
	b := s.Backend.(*breakable)
	b.mu.Lock()
	defer b.mu.Unlock()
	for id, a := range b.answers {
		a.overdue = a.overdue || a.resource == resource
		b.answers[id] = a
	}
}

func sweep(_ context.Context, s storagetest.Subject) (removed int, err error) {
	b := s.Backend.(*breakable)
	b.mu.Lock()
	defer b.mu.Unlock()
	resources := map[string]int{}
	for _, a := range b.answers {
		resources[a.resource]++
	}
	for resource, n := range resources {
		before := len(b.answers)
		for range n {
			b.forget(resource)
		}
		removed += before - len(b.answers)
	}
	return removed, nil
}

func (b *breakable) Get(ctx context.Context, resource, key string) (storage.Record, error) {
	if err := ctx.Err(); err != nil {
		return storage.Record{}, fencing.AsFailed(err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	rec, ok := b.records[b.id(resource, key)]
	if !ok {
		return rec, storage.ErrNotFound
	}
	rec.Value = b.shown(rec.Value)
	return rec, nil
}

func (b *breakable) GetFenced(ctx context.Context, t fencing.Token, key string) (storage.Record, error) {
	b.mu.Lock()
	err := b.current(b.mark(t.Resource), t)
	if !b.readGap {
		defer b.mu.Unlock()
	} else {
		b.mu.Unlock()
		time.Sleep(time.Millisecond)
		b.mu.Lock()
		defer b.mu.Unlock()
	}
	if ctx.Err() != nil {
		return storage.Record{}, fencing.AsFailed(ctx.Err())
	}
	if err != nil {
		return storage.Record{}, err
	}
	rec, ok := b.records[b.id(t.Resource, key)]
	if !ok {
		return rec, storage.ErrNotFound
	}
	rec.Value = b.shown(rec.Value)
	return rec, nil
}

func (b *breakable) List(ctx context.Context, resource, prefix, after string, limit int) ([]storage.Record, error) {
	if err := ctx.Err(); err != nil {
		return nil, fencing.AsFailed(err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	list := b.list(slices.Collect(maps.Values(b.records)), resource, prefix, after, limit)
	for i := range list {
		list[i].Value = b.shown(list[i].Value)
	}
	return list, nil
}

func listRight(all []storage.Record, resource, prefix, after string, limit int) []storage.Record {
	return listBy(all, limit, strings.Compare, func(rec storage.Record) bool {
		return rec.Resource == resource && strings.HasPrefix(rec.Key, prefix) && rec.Key > after
	})
}

func listBy(
	all []storage.Record, limit int, compare func(a, b string) int, match func(storage.Record) bool,
) []storage.Record {
	list := slices.DeleteFunc(all, func(rec storage.Record) bool { return !match(rec) })
	slices.SortFunc(list, func(a, b storage.Record) int { return compare(a.Key, b.Key) })
	return list[:min(len(list), limit)]
}

// update is breakable's own transaction. Commits do not wait for it: the suite's do not
// ask.
func update(
	_ context.Context, s storagetest.Subject,
	fn func(ctx context.Context, write func(resource, key string, value []byte) error) error, tokens ...fencing.Token,
) error {
	b := s.Backend.(*breakable)
	b.tx.Lock()
	defer b.tx.Unlock()
	check := func() error {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, t := range tokens {
			if err := b.mark(t.Resource).Current(t); err != nil {
				return err
			}
		}
		return nil
	}
	if err := check(); err != nil && !b.lateCheck {
		return err
	}
	writes := map[storage.RecordID][]byte{}
	commit := func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		for id, value := range writes {
			rec := storage.Record{Resource: id.Resource, Key: id.Key, Value: value, Version: b.records[id].Version + 1}
			b.records[id] = rec
		}
	}
	finished := false
	defer func() {
		if !finished && b.noUndo {
			commit()
		}
	}()
	err := fn(context.Background(), func(resource, key string, value []byte) error {
		writes[b.id(resource, key)] = bytes.Clone(value)
		return nil
	})
	finished = true
	if err == nil || b.ownUpdates {
		commit()
	}
	if err == nil && b.lateCheck {
		err = check()
	}
	return err
}

func harness(breakIt func(b *breakable)) storagetest.Harness {
	return storagetest.Harness{
		New: func(tb testing.TB, mode fencing.Mode) storagetest.Subject {
			b := newBreakable()
			if breakIt != nil {
				breakIt(b)
			}
			s, err := storage.New(b, &storage.Options{Mode: mode})
			if err != nil {
				tb.Fatal(err)
			}
			return storagetest.Subject{Store: s, Fence: s, Backend: b}
		},
		Update: update, UpdateOnce: updateOnce, Aged: aged, Sweep: sweep,
		Answered: storagetest.Answered,
	}
}

// updateOnce is update under a key.
func updateOnce(
	ctx context.Context, s storagetest.Subject, key string,
	fn func(ctx context.Context, write func(resource, key string, value []byte) error) error, tokens ...fencing.Token,
) (replayed bool, err error) {
	b := s.Backend.(*breakable)
	if err := fencing.ValidateKey(key); err != nil {
		return false, err
	}
	c := storage.Commit{Tokens: tokens, Key: key}
	b.mu.Lock()
	res, ch, err := b.judge(c, b.view(c))
	b.mu.Unlock()
	if err != nil || res.Replayed && !b.alwaysCall {
		return res.Replayed, err
	}
	if err := update(ctx, s, fn, tokens...); err != nil {
		return false, fencing.AsFailed(err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.write(c, ch)
	return res.Replayed, nil
}
