package pgstore

import (
	"cmp"
	"context"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/pgtx"
	"github.com/fencegate/fencegate/storage"
)

// verdict is what became of a commit in one attempt.
type verdict struct {
	storage.Outcome
	next next
}

// next says what remains to be done with a commit. Unless it is settled, surely nothing has
// happened, and Err is why.
type next int

const (
	settled next = iota
	busy         // somebody else has one of its marks locked: it must wait for that
	alone        // the attempt came to nothing, which may have been another commit's fault
)

// round is one transaction that carries out several commits, one after the other, each on its
// own merits: marks are locked, then records are read by a statement behind the one that
// locks, so that its snapshot is younger than the wait; then all is judged, and written.
type round struct {
	b       *Backend
	conn    *pgxpool.Conn
	commits []storage.Commit
	out     []verdict
	rests   []rest
	missing []int // commits some of whose marks are not locked here
	tx      pgx.Tx

	marks   map[string]fencing.Mark // of those that are locked here
	view    storage.View            // Marks is nil until all is judged
	answers map[storage.RecordID]*storage.Answer
	fresh   map[storage.RecordID]bool // answers to write
	changed map[storage.RecordID]bool
	raised  map[string]bool // bases
}

// rest is what the answer to a commit rests on, besides marks that are locked and what was
// committed before the round.
type rest int

const (
	onNothing rest = iota // it stands, whatever becomes of the round
	onOthers              // on what the commits before it left; it writes nothing itself
	onItself              // it is what it says if the round is committed
)

func (b *Backend) round(conn *pgxpool.Conn, commits []storage.Commit) *round {
	n := len(commits)
	return &round{
		b: b, conn: conn, commits: commits, out: make([]verdict, n), rests: make([]rest, n),
		marks: make(map[string]fencing.Mark, n),
		view:  storage.View{Bases: make(map[string]int64, n), Records: make(map[storage.RecordID]storage.Record, n)},
	}
}

// carry carries out commits in two round trips. With wait, a mark that somebody else has locked
// is waited for, and what then is not the mark is refused; without, the commit comes back as
// busy.
func (b *Backend) carry(ctx context.Context, conn *pgxpool.Conn, l pgtx.Limits, commits []storage.Commit, wait bool) []verdict {
	defer pgtx.Rollback(ctx, conn)
	r := b.round(conn, commits)
	if err := r.enter(ctx, l, r.tokens(), wait, true); err != nil {
		return r.failed(err)
	}
	r.judge()
	return r.finish(ctx, wait)
}

// failed gives up the round: surely nothing has happened. What does not rest on it stands.
func (r *round) failed(err error) []verdict {
	for i := range r.out {
		if r.view.Marks == nil || r.rests[i] != onNothing || slices.Contains(r.missing, i) {
			r.out[i] = verdict{Outcome: storage.Outcome{Err: err}, next: alone}
		}
	}
	return r.out
}

// tokens are those whose marks the round locks: each once, in order, and those of commits with
// a key even if they are not the mark. Else the record of the key could be written while it is
// looked up.
func (r *round) tokens() []wanted {
	list := make([]wanted, 0, len(r.commits))
	for _, c := range r.commits {
		for _, t := range c.Tokens {
			list = append(list, wanted{t, c.Key != ""})
		}
	}
	if len(list) == 1 {
		return list
	}
	slices.SortFunc(list, func(a, b wanted) int {
		return cmp.Or(cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Number, b.Number), cmp.Compare(a.Grant, b.Grant), compareBool(b.anyway, a.anyway))
	})
	return slices.CompactFunc(list, func(a, b wanted) bool { return a.Token == b.Token })
}

// wanted is a token whose mark is to be locked; anyway, if it is not the mark, too.
type wanted struct {
	fencing.Token
	anyway bool
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// enter begins the transaction and locks marks; with reads, it also reads what the commits are
// judged by, in the same round trip. The error is failed.
func (r *round) enter(ctx context.Context, l pgtx.Limits, tokens []wanted, wait, reads bool) error {
	batch := &pgx.Batch{}
	pgtx.Begin(batch, l)
	resources, numbers, grants, anyway := make([]string, len(tokens)), make([]int64, len(tokens)), make([]string, len(tokens)), make([]bool, len(tokens))
	for i, t := range tokens {
		resources[i], numbers[i], grants[i], anyway[i] = t.Resource, t.Number, t.Grant, t.anyway
	}
	sql := lockFreeSQL
	if wait {
		sql = lockSQL
	}
	batch.Queue(sql, resources, numbers, grants, anyway)
	read := func(pgx.BatchResults) error { return nil }
	if reads {
		read = r.queueReads(batch)
	}
	br := r.conn.SendBatch(ctx, batch)
	err := pgtx.Began(br)
	if err == nil {
		err = r.readMarks(br)
	}
	if err == nil {
		err = read(br)
	}
	if closing := br.Close(); err == nil {
		err = closing
	}
	r.tx = br.Tx()
	return pgtx.Before(err, false)
}

func (r *round) readMarks(br pgx.BatchResults) error {
	rows, err := br.Query()
	if err != nil {
		return err
	}
	var resource string
	var m fencing.Mark
	var base int64
	_, err = pgx.ForEachRow(rows, []any{&resource, &m.Number, &m.Grant, &m.Retired, &base}, func() error {
		r.marks[resource] = m
		r.view.Bases[resource] = base
		return nil
	})
	return err
}

// read reads what the commits are judged by.
func (r *round) read(ctx context.Context) error {
	batch := &pgx.Batch{}
	read := r.queueReads(batch)
	if batch.Len() == 0 {
		return nil
	}
	br := r.conn.SendBatch(ctx, batch)
	err := read(br)
	if closing := br.Close(); err == nil {
		err = closing
	}
	return pgtx.Before(err, false)
}

// queueReads asks for the idempotency records and the records of the commits. A value is asked
// for only where it counts.
func (r *round) queueReads(batch *pgx.Batch) (read func(pgx.BatchResults) error) {
	asked := r.queueAnswers(batch, nil)
	var resources, keys []string
	var values []bool
	place := make(map[storage.RecordID]int, len(r.commits))
	for _, c := range r.commits {
		for _, op := range c.Ops {
			i, ok := place[op.ID()]
			if !ok {
				i = len(keys)
				place[op.ID()] = i
				resources, keys, values = append(resources, op.Resource), append(keys, op.Key), append(values, false)
			}
			values[i] = values[i] || op.Kind == storage.KindAdd
		}
	}
	if len(keys) > 0 {
		batch.Queue(recordsSQL, resources, keys, values)
	}
	return func(br pgx.BatchResults) error {
		if asked {
			if err := r.readAnswers(br); err != nil {
				return err
			}
		}
		if len(keys) == 0 {
			return nil
		}
		rows, err := br.Query()
		if err != nil {
			return err
		}
		var rec storage.Record
		_, err = pgx.ForEachRow(rows, []any{&rec.Resource, &rec.Key, &rec.Value, &rec.Version}, func() error {
			r.view.Records[storage.RecordID{Resource: rec.Resource, Key: rec.Key}] = rec
			rec.Value = nil // the next row's is another one
			return nil
		})
		return err
	}
}

// judge judges the commits whose marks are locked, each by what those before it left, and those
// that were answered before.
func (r *round) judge() {
	r.view.Marks = r.marks
	for i, c := range r.commits {
		v := r.view
		id, keyed := c.KeyID()
		if keyed {
			v.Answer = r.answers[id]
		}
		if v.Answer == nil && !r.holds(c) {
			r.missing = append(r.missing, i)
			continue
		}
		res, ch, err := storage.Evaluate(c, v)
		r.out[i].Outcome = storage.Outcome{Result: res, Err: err}
		if err == nil {
			r.apply(ch)
		}
		switch _, stale := asStale(err); {
		case ch.Answer != nil:
			r.answer(id, ch.Answer)
			r.rests[i] = onItself
		case len(ch.Put)+len(ch.Deleted) > 0 || keyed && r.fresh[id]:
			r.rests[i] = onItself
		case !stale && v.Answer == nil:
			r.rests[i] = onOthers
		}
	}
}

func (r *round) holds(c storage.Commit) bool {
	for _, t := range c.Tokens {
		if _, ok := r.marks[t.Resource]; !ok {
			return false
		}
	}
	return true
}

func (r *round) apply(ch storage.Changes) {
	if r.changed == nil {
		r.changed = make(map[storage.RecordID]bool, len(r.commits))
	}
	for _, rec := range ch.Put {
		r.changed[storage.RecordID{Resource: rec.Resource, Key: rec.Key}] = true
	}
	for _, id := range ch.Deleted {
		r.changed[id] = true
	}
	for resource := range ch.Bases {
		if r.raised == nil {
			r.raised = map[string]bool{}
		}
		r.raised[resource] = true
	}
	r.view.Apply(ch)
}
