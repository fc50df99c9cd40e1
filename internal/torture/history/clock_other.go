//go:build !unix

package history

import "time"

// Now returns a clock in nanoseconds that processes share.
func Now() int64 { return time.Now().UnixNano() }
