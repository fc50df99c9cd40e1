package pgstore

// The classification of errors, for its table.
var (
	Before    = before
	Committed = committed
	Again     = again
	ErrMoved  = errMoved
)
