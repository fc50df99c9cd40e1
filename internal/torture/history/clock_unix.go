//go:build unix

package history

import "golang.org/x/sys/unix"

// Now returns the machine's monotonic clock in nanoseconds.
func Now() int64 {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // fails for unknown clocks only
	return ts.Nano()
}
