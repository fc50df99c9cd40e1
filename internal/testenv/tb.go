package testenv

// TB is what this package needs of a testing.TB. A program that is no test gives its own: after
// Fatalf and Skipf the caller must not go on.
type TB interface {
	Helper()
	Cleanup(f func())
	Failed() bool
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Skipf(format string, args ...any)
}
