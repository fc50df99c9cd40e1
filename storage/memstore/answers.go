package memstore

import (
	"context"
	"strings"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/storage"
)

// removeStep is how many overdue idempotency records a commit removes at most: more than the one
// that it writes.
const removeStep = 16

// answers are the idempotency records of a resource.
type answers struct {
	byKey map[string]answer
	// keys are in the order in which they were written. So the first one is overdue before the
	// others, and has the lowest number: a resource's mark never goes back.
	keys []string
}

// answer is a storage.Answer in its stored form, which nobody else has a hand on.
type answer struct {
	fingerprint storage.Fingerprint
	number      int64
	text        []byte
	written     time.Time
}

// answer returns the record of a key, nil if there is none. Callers hold b.mu.
func (b *Backend) answer(id storage.RecordID) (*storage.Answer, error) {
	of := b.answers[id.Resource]
	if of == nil {
		return nil, nil //nolint:nilnil // no record is no error
	}
	kept, ok := of.byKey[id.Key]
	if !ok {
		return nil, nil //nolint:nilnil // the same
	}
	a, err := storage.ParseAnswer(kept.fingerprint, kept.number, kept.text)
	return &a, fencing.AsFailed(err)
}

// remember writes the record of a key and removes some that are overdue. Callers hold b.mu.
func (b *Backend) remember(id storage.RecordID, a storage.Answer) {
	of := b.answers[id.Resource]
	if of == nil {
		of = &answers{byKey: map[string]answer{}}
		b.answers[b.marks.own(id.Resource)] = of
	}
	id.Key = strings.Clone(id.Key) // it may be a piece of something large
	now := time.Now()
	of.byKey[id.Key] = answer{a.Fingerprint, a.Number, a.Text(), now}
	of.keys = append(of.keys, id.Key)
	b.removeOverdue(id.Resource, now, removeStep)
}

// removeOverdue removes up to most of a resource's overdue records, the oldest first, and says how
// many. Callers hold b.mu.
func (b *Backend) removeOverdue(resource string, now time.Time, most int) int {
	if b.retention < 0 {
		return 0
	}
	of, mark := b.answers[resource], b.marks.get(resource)
	n := 0
	for n < min(most, len(of.keys)) {
		a := of.byKey[of.keys[n]]
		held := a.number == mark.Number && !mark.Retired
		if held || now.Sub(a.written) < b.retention {
			break
		}
		delete(of.byKey, of.keys[n])
		n++
	}
	of.keys = of.keys[n:]
	if len(of.keys) == 0 {
		delete(b.answers, resource)
	}
	return n
}

// Sweep removes the overdue idempotency records of every resource, also of those that no commit
// comes by, and returns how many. Callers decide when: once an hour is plenty.
func (b *Backend) Sweep(ctx context.Context) (removed int, err error) {
	b.mu.Lock()
	resources := make([]string, 0, len(b.answers))
	for resource := range b.answers {
		resources = append(resources, resource)
	}
	b.mu.Unlock()
	for _, resource := range resources {
		for n := 1; n > 0; removed += n {
			if err := ctx.Err(); err != nil {
				return removed, fencing.AsFailed(err)
			}
			n = b.sweepStep(resource)
		}
	}
	return removed, nil
}

// sweepStep lets others in between.
func (b *Backend) sweepStep(resource string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.answers[resource] == nil {
		return 0
	}
	return b.removeOverdue(resource, time.Now(), removeStep)
}
