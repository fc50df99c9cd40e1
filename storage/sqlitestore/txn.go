package sqlitestore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/storage"
)

// txn is a write transaction of the lane. Its errors are SQLite's, never a refusal. It begins with
// the first statement that needs it.
type txn struct{ *work }

type work struct {
	*conn
	dc          any // the driver's
	incarnation string
	retention   time.Duration
	alone       bool // no other job is in this batch
	begun       bool
}

// ready begins the transaction if it is not begun. Its errors are failed: nothing was tried.
func (w *work) ready() error {
	if w.begun {
		return nil
	}
	if _, err := w.begin.exec(); err != nil {
		return fencing.AsFailed(fmt.Errorf("begin: %w", err))
	}
	w.begun = true
	return nil
}

// end commits what was begun. Where SQLite refuses, it rolls back.
func (w *work) end() error {
	if !w.begun {
		return nil
	}
	w.begun = false
	_, err := w.commit.exec()
	if err != nil {
		_, _ = w.rollback.exec() // SQLite may have done so
	}
	return err
}

// undo rolls back what was begun.
func (w *work) undo() {
	if w.begun {
		w.begun = false
		_, _ = w.rollback.exec() // SQLite may have done so
	}
}

// failed gives an error of a job its outcome. Within the transaction nothing is committed; a statement
// that was alone, a put, may have been.
func (w *work) failed(err error) error {
	if w.begun || errors.Is(err, fencing.ErrFailed) {
		return fencing.AsFailed(err)
	}
	return committed("put", err)
}

// ExecContext runs a statement that is used too seldom to be kept.
func (t txn) ExecContext(_ context.Context, query string, args ...any) (driver.Result, error) {
	if err := t.ready(); err != nil {
		return nil, err
	}
	_, n, err := run(t.dc, query, args, false)
	return driver.RowsAffected(n), err
}

// QueryRowContext runs a query that is used too seldom to be kept.
func (t txn) QueryRowContext(_ context.Context, query string, args ...any) row {
	if err := t.ready(); err != nil {
		return row{err: err}
	}
	values, _, err := run(t.dc, query, args, true)
	return row{values, err}
}

// row is like *sql.Row.
type row struct {
	values []driver.Value
	err    error
}

// Scan hands over the row's values, once; sql.ErrNoRows if there was none.
func (r row) Scan(dest ...any) error {
	defer clear(r.values) // the statement lives on, and must not keep what may be large
	switch {
	case r.err != nil:
		return r.err
	case r.values == nil:
		return sql.ErrNoRows
	case len(dest) != len(r.values):
		return fmt.Errorf("%d columns for %d destinations", len(r.values), len(dest))
	}
	for i, d := range dest {
		var ok bool
		switch d := d.(type) {
		case *int:
			var n int64
			n, ok = r.values[i].(int64)
			*d = int(n)
		case *int64:
			*d, ok = r.values[i].(int64)
		case *bool:
			var n int64
			n, ok = r.values[i].(int64)
			*d = n != 0
		case *string:
			*d, ok = r.values[i].(string)
		case *[]byte:
			*d, ok = r.values[i].([]byte)
		}
		if !ok {
			return fmt.Errorf("column %d is a %T, and not for a %T", i, r.values[i], d)
		}
	}
	return nil
}

// mark returns a resource's mark and base.
func (t txn) mark(resource string) (fencing.Mark, int64, error) {
	if err := t.ready(); err != nil {
		return fencing.Mark{}, 0, err
	}
	var m fencing.Mark
	var base int64
	values, err := t.conn.mark.first(resource, t.incarnation)
	if err == nil {
		err = row{values: values}.Scan(&m.Number, &m.Grant, &m.Retired, &base)
	}
	return tidy(m), base, err
}

func (t txn) setMark(resource string, m fencing.Mark) error {
	return t.exec(t.conn.setMark, resource, m.Number, m.Grant, m.Retired, t.incarnation)
}

func (t txn) exec(s *statement, args ...any) error {
	err := t.ready()
	if err == nil {
		_, err = s.exec(args...)
	}
	if err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

// view reads what a commit is judged by.
func (t txn) view(c storage.Commit) (storage.View, error) {
	v := storage.View{
		Marks:   make(map[string]fencing.Mark, len(c.Tokens)),
		Bases:   map[string]int64{},
		Records: make(map[storage.RecordID]storage.Record, len(c.Ops)),
	}
	if err := t.ready(); err != nil {
		return v, err
	}
	for _, token := range c.Tokens {
		m, base, err := t.mark(token.Resource)
		if err != nil {
			return v, err
		}
		v.Marks[token.Resource] = m
		if base > 0 {
			v.Bases[token.Resource] = base
		}
	}
	if id, ok := c.KeyID(); ok {
		var err error
		if v.Answer, err = t.readAnswer(id); err != nil || v.Answer != nil {
			return v, err
		}
	}
	for _, op := range c.Ops {
		values, err := t.get.first(op.Resource, op.Key)
		if err != nil {
			return v, err
		}
		if values != nil {
			rec := storage.Record{Resource: op.Resource, Key: op.Key}
			if err := (row{values: values}).Scan(&rec.Value, &rec.Version); err != nil {
				return v, err
			}
			v.Records[op.ID()] = rec
		}
	}
	return v, nil
}

func (t txn) write(c storage.Commit, ch storage.Changes) error {
	for _, rec := range ch.Put {
		if err := t.exec(t.put, rec.Resource, rec.Key, notNull(rec.Value), rec.Version); err != nil {
			return err
		}
		t.guesses.put(storage.RecordID{Resource: rec.Resource, Key: rec.Key}, rec.Version)
	}
	for _, id := range ch.Deleted {
		if err := t.exec(t.del, id.Resource, id.Key); err != nil {
			return err
		}
		delete(t.guesses, id)
	}
	for resource, base := range ch.Bases {
		if err := t.exec(t.setBase, resource, base); err != nil {
			return err
		}
	}
	if ch.Answer == nil {
		return nil
	}
	id, _ := c.KeyID()
	return t.writeAnswer(id, *ch.Answer)
}

// notNull returns an empty value for none: nil would be NULL.
func notNull(value []byte) []byte {
	if value == nil {
		return []byte{}
	}
	return value
}
