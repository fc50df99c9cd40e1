package pglock

import _ "embed"

var (
	//go:embed sql/acquire.sql
	acquireSQL string
	//go:embed sql/renew.sql
	renewSQL string
	//go:embed sql/release.sql
	releaseSQL string
	//go:embed sql/evict.sql
	evictSQL string
	//go:embed sql/leave.sql
	leaveSQL string
	//go:embed sql/transfer.sql
	transferSQL string
	//go:embed sql/status.sql
	statusSQL string
	//go:embed sql/list.sql
	listSQL string
	//go:embed sql/patience.sql
	patienceSQL string
	//go:embed sql/queue.sql
	queueSQL string

	//go:embed sql/row_take.sql
	rowTakeSQL string
	//go:embed sql/row_make.sql
	rowMakeSQL string
	//go:embed sql/row_grant.sql
	rowGrantSQL string
	//go:embed sql/row_touch.sql
	rowTouchSQL string
	//go:embed sql/row_renew.sql
	rowRenewSQL string
	//go:embed sql/row_end.sql
	rowEndSQL string
	//go:embed sql/row_status.sql
	rowStatusSQL string
	//go:embed sql/row_list.sql
	rowListSQL string
)
