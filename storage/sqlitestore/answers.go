package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/storage"
)

const (
	// removeStep is how many overdue idempotency records a commit removes at most: more than the
	// one that it writes.
	removeStep = 16
	// sweepStep is how many a transaction of Sweep looks at: a few milliseconds of the writer.
	sweepStep = 500
)

// readAnswer returns the record of an idempotency key, nil if there is none. The transaction has
// begun: nobody else writes.
func (t txn) readAnswer(id storage.RecordID) (*storage.Answer, error) {
	values, err := t.answer.first(id.Resource, id.Key)
	if err != nil || values == nil {
		return nil, err
	}
	return scanAnswer(row{values: values})
}

// scanAnswer reads a row of answer.sql.
func scanAnswer(r interface{ Scan(dest ...any) error }) (*storage.Answer, error) {
	var fingerprint, text []byte
	var number int64
	if err := r.Scan(&fingerprint, &number, &text); err != nil {
		return nil, err
	}
	if len(fingerprint) != len(storage.Fingerprint{}) {
		return nil, fmt.Errorf("read an idempotency record: its fingerprint has %d bytes", len(fingerprint))
	}
	a, err := storage.ParseAnswer(storage.Fingerprint(fingerprint), number, text)
	return &a, err
}

// writeAnswer writes the record of an idempotency key, whose resource's mark is of the answer's
// number, and removes some that are overdue.
func (t txn) writeAnswer(id storage.RecordID, a storage.Answer) error {
	now := time.Now()
	if err := t.exec(t.setAnswer, id.Resource, id.Key, a.Fingerprint[:], a.Number, a.Text(), now.UnixMilli()); err != nil {
		return err
	}
	return t.exec(t.removeAnswers, id.Resource, now.Add(-t.retention).UnixMilli(), a.Number, removeStep)
}

// Sweep removes the idempotency records that are overdue, of resources too that no commit comes by,
// and returns how many. It goes through all of them in small transactions, between which others
// write. Callers decide when: once an hour is plenty. After an error it may be called again.
func (b *Backend) Sweep(ctx context.Context) (removed int, err error) {
	overdue := time.Now().Add(-b.retention).UnixMilli()
	for after := (storage.RecordID{}); ; {
		n, last, err := b.sweepOnce(ctx, after, overdue)
		removed += n
		if err != nil {
			if removed > 0 {
				err = fencing.AsPartial(err)
			}
			return removed, err
		}
		if last == (storage.RecordID{}) {
			return removed, nil
		}
		after = last
	}
}

// sweepOnce looks at the next records after a key; last is the last one of them, none at the end.
func (b *Backend) sweepOnce(ctx context.Context, after storage.RecordID, overdue int64) (n int, last storage.RecordID, err error) {
	// The job may run on when ctx has ended: what it says is looked at only if it was waited for.
	type step struct {
		n    int64
		last storage.RecordID
	}
	did := make(chan step, 1)
	out := b.lane.Do(ctx, func(t txn) (storage.Outcome, error) {
		var s step
		err := t.QueryRowContext(noContext, sweepLookSQL, after.Resource, after.Key, sweepStep).Scan(&s.last.Resource, &s.last.Key)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			did <- s
			return storage.Outcome{}, nil
		case err != nil:
			return storage.Outcome{}, fmt.Errorf("look for idempotency records: %w", err)
		}
		res, err := t.ExecContext(noContext, sweepSQL, after.Resource, after.Key, s.last.Resource, s.last.Key, overdue, t.incarnation)
		if err == nil {
			s.n, err = res.RowsAffected()
		}
		if err != nil {
			return storage.Outcome{}, fmt.Errorf("remove idempotency records: %w", err)
		}
		did <- s
		return storage.Outcome{}, nil
	})
	if err := out[0].Err; err != nil {
		return 0, last, err
	}
	s := <-did
	return int(s.n), s.last, nil
}
