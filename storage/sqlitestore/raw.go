package sqlitestore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
)

// The lane writes past database/sql, whose checks and allocations cost as much as SQLite itself where
// the disk is fast: here one connection, used by one goroutine at a time, has its statements for as
// long as it lives. Nothing here takes a context that can end: an interrupted connection would be
// thrown away.

// conn is the lane's connection.
type conn struct {
	*sql.Conn
	begin, commit, rollback               *statement
	mark, setMark, setBase, get, put, del *statement
	putFenced, putGuess                   *statement
	answer, setAnswer, removeAnswers      *statement
	guesses                               guesses
}

// connect takes the pool's only connection, for good.
func connect(ctx context.Context, db *sql.DB) (*conn, error) {
	sc, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: sc, guesses: guesses{}}
	err = c.use(func(dc any) error {
		for s, text := range map[**statement]string{
			&c.begin: beginSQL, &c.commit: commitSQL, &c.rollback: rollbackSQL,
			&c.mark: markSQL, &c.setMark: setMarkSQL, &c.setBase: setBaseSQL, &c.get: getSQL, &c.put: putSQL, &c.del: deleteSQL,
			&c.putFenced: putFencedSQL, &c.putGuess: putGuessSQL, &c.answer: answerSQL, &c.setAnswer: setAnswerSQL, &c.removeAnswers: removeAnswersSQL,
		} {
			var err error
			if *s, err = prepareRaw(dc, text); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// use lends the driver's connection to f, which must not keep it. If f panics, database/sql closes
// the connection: from then on it is sql.ErrConnDone.
func (c *conn) use(f func(dc any) error) error {
	return c.Raw(func(dc any) error {
		returned := false
		defer func() {
			if !returned {
				_ = c.closeStatements()
			}
		}()
		err := f(dc)
		returned = true
		return err
	})
}

// Close ends the statements first: SQLite does not close a file that has any.
func (c *conn) Close() error {
	err := c.use(func(any) error { return c.closeStatements() })
	if errors.Is(err, sql.ErrConnDone) {
		return nil
	}
	return errors.Join(err, c.Conn.Close())
}

func (c *conn) closeStatements() (err error) {
	for _, s := range []*statement{
		c.begin, c.commit, c.rollback, c.mark, c.setMark, c.setBase, c.get, c.put, c.del,
		c.putFenced, c.putGuess, c.answer, c.setAnswer, c.removeAnswers,
	} {
		if s != nil {
			err = errors.Join(err, s.stmt.Close())
		}
	}
	return err
}

// statement is one prepared statement. It is for one goroutine at a time.
type statement struct {
	stmt driver.Stmt
	args []driver.NamedValue // of the call under way; cleared after it
	row  []driver.Value      // of the last call of first; row.Scan clears it
}

func prepareRaw(dc any, text string) (*statement, error) {
	p, ok := dc.(driver.ConnPrepareContext)
	if !ok {
		return nil, fmt.Errorf("the driver's connection is a %T", dc)
	}
	stmt, err := p.PrepareContext(noContext, text)
	if err != nil {
		return nil, err
	}
	return &statement{stmt: stmt}, nil
}

func (s *statement) bind(args []any) error {
	s.args = s.args[:0]
	for i, arg := range args {
		if n, ok := arg.(int); ok {
			arg = int64(n)
		}
		if !driver.IsValue(arg) {
			return fmt.Errorf("parameter %d is a %T", i+1, arg)
		}
		s.args = append(s.args, driver.NamedValue{Ordinal: i + 1, Value: arg})
	}
	return nil
}

// unbind lets go of the parameters, of which one may be a value of many megabytes.
func (s *statement) unbind() { clear(s.args) }

// exec runs the statement and returns how many rows it changed.
func (s *statement) exec(args ...any) (int64, error) {
	defer s.unbind()
	if err := s.bind(args); err != nil {
		return 0, err
	}
	res, err := s.stmt.(driver.StmtExecContext).ExecContext(noContext, s.args) //nolint:errcheck // the driver's statements are
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// first runs the statement to its end, so that outside of a transaction it is committed, and returns
// its first row, nil if it has none. The slice is the statement's: it is good until its next call.
func (s *statement) first(args ...any) (row []driver.Value, err error) {
	defer s.unbind()
	if err := s.bind(args); err != nil {
		return nil, err
	}
	rows, err := s.stmt.(driver.StmtQueryContext).QueryContext(noContext, s.args) //nolint:errcheck // the same
	if err != nil {
		return nil, err
	}
	if s.row == nil {
		s.row = make([]driver.Value, len(rows.Columns()))
	}
	switch err = rows.Next(s.row); {
	case errors.Is(err, io.EOF):
		return nil, rows.Close()
	case err != nil:
		_ = rows.Close()
		return nil, err
	}
	row = s.row
	for rest := make([]driver.Value, len(row)); ; {
		if err := rows.Next(rest); errors.Is(err, io.EOF) {
			return row, rows.Close()
		} else if err != nil {
			_ = rows.Close()
			return nil, err
		}
	}
}

// run runs a statement that is not kept.
func run(dc any, text string, args []any, first bool) (row []driver.Value, changed int64, err error) {
	s, err := prepareRaw(dc, text)
	if err != nil {
		return nil, 0, err
	}
	if first {
		row, err = s.first(args...)
	} else {
		changed, err = s.exec(args...)
	}
	return row, changed, errors.Join(err, s.stmt.Close())
}
