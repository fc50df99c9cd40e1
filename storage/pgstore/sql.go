package pgstore

import _ "embed"

var (
	//go:embed sql/lock.sql
	lockSQL string
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
