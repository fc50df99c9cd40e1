package pgstore

// What is tried again, for its table.
var (
	Again    = again
	ErrMoved = errMoved
)
