package pgstore

// What is tried again, for its table.
var (
	Again    = again
	ErrMoved = errMoved
)

// URL is how the pool was told to connect, without its role.
func (b *Backend) URL() string { return b.pool.Config().ConnString() }

// Inline and Called are what names the incarnation where it counts, and elsewhere.
const Called = "(select fencegate.incarnation())"

func Inline() string { return inline(Called) }
