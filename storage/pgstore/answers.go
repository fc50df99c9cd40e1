package pgstore

import (
	"context"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/internal/pgtx"
	"github.com/fencegate/fencegate/storage"
)

const (
	// overdueEach is how many overdue records of its resource a commit removes that leaves
	// one: more than it adds, so that they do not pile up.
	overdueEach = 4
	// sweepStep is how many records a step of Sweep looks at.
	sweepStep = 1000
)

// queueAnswers asks for the idempotency records of commits, all if list is nil.
func (r *round) queueAnswers(batch *pgx.Batch, list []int) (asked bool) {
	var resources, keys []string
	for i, c := range r.commits {
		if id, ok := c.KeyID(); ok && (list == nil || slices.Contains(list, i)) {
			resources, keys = append(resources, id.Resource), append(keys, id.Key)
		}
	}
	if len(keys) == 0 {
		return false
	}
	batch.Queue(answersSQL, resources, keys)
	return true
}

func (r *round) readAnswers(br pgx.BatchResults) error {
	rows, err := br.Query()
	if err != nil {
		return err
	}
	if r.answers == nil {
		r.answers = map[storage.RecordID]*storage.Answer{}
	}
	var id storage.RecordID
	var fingerprint, text []byte
	var number int64
	_, err = pgx.ForEachRow(rows, []any{&id.Resource, &id.Key, &fingerprint, &number, &text}, func() error {
		a, err := storage.ParseAnswer(storage.Fingerprint(fingerprint), number, text)
		r.answers[id] = &a
		return err
	})
	return err
}

// answer takes note of an answer that is to be written.
func (r *round) answer(id storage.RecordID, a *storage.Answer) {
	if r.fresh == nil {
		r.fresh = map[storage.RecordID]bool{}
	}
	r.fresh[id] = true
	r.answers[id] = a
}

// queueFresh queues the answers to write, and the removal of some that are overdue.
func (r *round) queueFresh(batch *pgx.Batch) {
	if len(r.fresh) == 0 {
		return
	}
	var resources, keys, each []string
	var fingerprints, texts [][]byte
	var numbers []int64
	var most []int32
	for _, id := range slices.SortedFunc(maps.Keys(r.fresh), compareID) {
		a := r.answers[id]
		resources, keys = append(resources, id.Resource), append(keys, id.Key)
		fingerprints, texts, numbers = append(fingerprints, a.Fingerprint[:]), append(texts, a.Text()), append(numbers, a.Number)
		if n := len(each); n == 0 || each[n-1] != id.Resource {
			each, most = append(each, id.Resource), append(most, 0)
		}
		most[len(most)-1] += overdueEach
	}
	batch.Queue(answerSQL, resources, keys, fingerprints, numbers, texts)
	batch.Queue(overdueSQL, each, most, r.b.o.KeyRetention.Milliseconds())
}

// Sweep removes the idempotency records that are older than Options.KeyRetention, but for those
// whose token is the mark, and returns how many. Commits with a key remove those of their own
// resource; this is for resources that are no longer used. It works in steps of up to 1,000
// records, each a transaction of its own that waits for no fenced transaction for long, and
// may be called at any time, by several processes, too. The error is that of the step that
// it ended with; what the steps before it removed, n, stays so.
func (b *Backend) Sweep(ctx context.Context) (n int, err error) {
	after := storage.RecordID{}
	for {
		var looked, removed int
		var resource, key *string
		err := b.sweepStep(ctx, after, &looked, &removed, &resource, &key)
		if err != nil {
			return n, err
		}
		n += removed
		if looked < sweepStep || resource == nil {
			return n, nil
		}
		after = storage.RecordID{Resource: *resource, Key: *key}
	}
}

func (b *Backend) sweepStep(ctx context.Context, after storage.RecordID, dest ...any) error {
	ctx, wait, cancel := pgtx.Deadline(ctx, b.o.RaiseTimeout, 2*b.o.RaiseTimeout)
	defer cancel()
	return pgtx.Call(ctx, b.pool, pgtx.Limits{Idle: b.o.MaxIdle, Wait: wait}, pgtx.Row(dest...),
		sweepSQL, after.Resource, after.Key, sweepStep, b.o.KeyRetention.Milliseconds())
}
