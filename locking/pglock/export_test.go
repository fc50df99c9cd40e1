package pglock

// The classification of errors, for its table.
var (
	Before    = before
	Committed = committed
)
