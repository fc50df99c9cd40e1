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
)
