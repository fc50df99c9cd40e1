package sqlitestore

import (
	"context"
	"database/sql"
	_ "embed"

	"github.com/fencegate/fencegate/fencing"
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

//go:embed sql/put_fenced.sql
var putFencedSQL string

//go:embed sql/put_guess.sql
var putGuessSQL string

//go:embed sql/begin.sql
var beginSQL string

//go:embed sql/commit.sql
var commitSQL string

//go:embed sql/rollback.sql
var rollbackSQL string

//go:embed sql/answer.sql
var answerSQL string

//go:embed sql/set_answer.sql
var setAnswerSQL string

//go:embed sql/remove_answers.sql
var removeAnswersSQL string

//go:embed sql/sweep_look.sql
var sweepLookSQL string

//go:embed sql/sweep.sql
var sweepSQL string

// statements are those of a pool, prepared once for each connection.
type statements struct {
	mark, get, getFenced, list       *sql.Stmt // of those who read, mark of Update too
	answer, setAnswer, removeAnswers *sql.Stmt // of Update
}

func prepare(ctx context.Context, db *sql.DB) (*statements, error) {
	s := &statements{}
	for text, stmt := range map[string]**sql.Stmt{
		markSQL: &s.mark, getSQL: &s.get, getFencedSQL: &s.getFenced, listSQL: &s.list,
		answerSQL: &s.answer, setAnswerSQL: &s.setAnswer, removeAnswersSQL: &s.removeAnswers,
	} {
		var err error
		if *stmt, err = db.PrepareContext(ctx, text); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// The statements of a batch belong to many callers: no context of one may end them.
var noContext = context.Background()

// tidy takes the grant id from a retired mark: the row of an earlier incarnation still
// has it.
func tidy(m fencing.Mark) fencing.Mark {
	if m.Retired {
		m.Grant = ""
	}
	return m
}
