package sqlitestore

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/storage"
)

//go:embed sql/mark.sql
var markSQL string

//go:embed sql/set_mark.sql
var setMarkSQL string

//go:embed sql/set_base.sql
var setBaseSQL string

//go:embed sql/get.sql
var getSQL string

//go:embed sql/get_fenced.sql
var getFencedSQL string

//go:embed sql/list.sql
var listSQL string

//go:embed sql/put.sql
var putSQL string

//go:embed sql/delete.sql
var deleteSQL string

//go:embed sql/journal.sql
var journalSQL string

// statements are those of one pool, prepared once.
type statements struct {
	mark, setMark, setBase, get, getFenced, list, put, del *sql.Stmt
}

func prepare(ctx context.Context, db *sql.DB) (*statements, error) {
	s := &statements{}
	for text, stmt := range map[string]**sql.Stmt{
		markSQL: &s.mark, setMarkSQL: &s.setMark, setBaseSQL: &s.setBase, getSQL: &s.get,
		getFencedSQL: &s.getFenced, listSQL: &s.list, putSQL: &s.put, deleteSQL: &s.del,
	} {
		var err error
		if *stmt, err = db.PrepareContext(ctx, text); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// txn is a write transaction. Its errors are SQLite's, never a refusal.
type txn struct {
	*sql.Tx
	s           *statements
	incarnation string
}

// The statements of a batch belong to many callers: no context of one may end them.
var noContext = context.Background()

// mark returns a resource's mark and base.
func (t txn) mark(resource string) (fencing.Mark, int64, error) {
	var m fencing.Mark
	var base int64
	err := t.StmtContext(noContext, t.s.mark).QueryRowContext(noContext, resource, t.incarnation).
		Scan(&m.Number, &m.Grant, &m.Retired, &base)
	return tidy(m), base, err
}

// tidy takes the grant id from a retired mark: the row of an earlier incarnation still
// has it.
func tidy(m fencing.Mark) fencing.Mark {
	if m.Retired {
		m.Grant = ""
	}
	return m
}

func (t txn) setMark(resource string, m fencing.Mark) error {
	return t.exec(t.s.setMark, resource, m.Number, m.Grant, m.Retired, t.incarnation)
}

// view reads what a commit is judged by.
func (t txn) view(c storage.Commit) (storage.View, error) {
	v := storage.View{
		Marks:   make(map[string]fencing.Mark, len(c.Tokens)),
		Bases:   map[string]int64{},
		Records: make(map[storage.RecordID]storage.Record, len(c.Ops)),
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
	for _, op := range c.Ops {
		rec := storage.Record{Resource: op.Resource, Key: op.Key}
		err := t.StmtContext(noContext, t.s.get).QueryRowContext(noContext, op.Resource, op.Key).Scan(&rec.Value, &rec.Version)
		switch {
		case err == nil:
			v.Records[op.ID()] = rec
		case !errors.Is(err, sql.ErrNoRows):
			return v, err
		}
	}
	return v, nil
}

func (t txn) write(ch storage.Changes) error {
	for _, rec := range ch.Put {
		if rec.Value == nil {
			rec.Value = []byte{} // nil would be NULL
		}
		if err := t.exec(t.s.put, rec.Resource, rec.Key, rec.Value, rec.Version); err != nil {
			return err
		}
	}
	for _, id := range ch.Deleted {
		if err := t.exec(t.s.del, id.Resource, id.Key); err != nil {
			return err
		}
	}
	for resource, base := range ch.Bases {
		if err := t.exec(t.s.setBase, resource, base); err != nil {
			return err
		}
	}
	return nil
}

func (t txn) exec(s *sql.Stmt, args ...any) error {
	if _, err := t.StmtContext(noContext, s).ExecContext(noContext, args...); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}
