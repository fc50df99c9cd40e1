package pgstore

import (
	_ "embed"
	"strings"
)

var (
	//go:embed sql/incarnation.sql
	incarnationSQL string
	//go:embed sql/lock.sql
	lockText string
	//go:embed sql/lock_free.sql
	lockFreeText string
	//go:embed sql/put_one.sql
	putOneText string
	//go:embed sql/put_new.sql
	putNewText string
	//go:embed sql/add_one.sql
	addOneText string
	//go:embed sql/answers.sql
	answersSQL string
	//go:embed sql/answer.sql
	answerSQL string
	//go:embed sql/overdue.sql
	overdueSQL string
	//go:embed sql/direct.sql
	directSQL string
	//go:embed sql/sweep.sql
	sweepSQL string
	//go:embed sql/marks.sql
	marksSQL string
	//go:embed sql/records.sql
	recordsSQL string
	//go:embed sql/put.sql
	putSQL string
	//go:embed sql/delete.sql
	deleteSQL string
	//go:embed sql/bases.sql
	basesSQL string
	//go:embed sql/raise.sql
	raiseSQL string
	//go:embed sql/retire.sql
	retireSQL string
	//go:embed sql/evict.sql
	evictSQL string
	//go:embed sql/get.sql
	getSQL string
	//go:embed sql/get_fenced.sql
	getFencedSQL string
	//go:embed sql/list.sql
	listSQL string
	//go:embed sql/holder.sql
	holderSQL string
)

// What is run for every commit.
var (
	lockSQL     = inline(lockText)
	lockFreeSQL = inline(lockFreeText)
	putOneSQL   = inline(putOneText)
	putNewSQL   = inline(putNewText)
	addOneSQL   = inline(addOneText)
)

// Where it counts, incarnation() is written out.
func inline(sql string) string {
	return strings.ReplaceAll(sql, "(select fencegate.incarnation())", "(\n"+strings.TrimSpace(incarnationSQL)+")")
}
