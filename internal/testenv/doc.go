// Package testenv starts private Redis and PostgreSQL servers for tests, breaks them on request, and leaves nothing behind.
//
// A server listens on 127.0.0.1 on a port of its own and keeps its data in a temporary directory. Many run side by side.
// StartRedis and StartPostgres give a server to one test, which may kill, pause, restart or rewind it. SharedRedis and
// SharedPostgres give the one server of this test process, for tests that only need a server and not its faults.
//
// A program that is not installed skips the test; with FENCEGATE_TEST_REQUIRE=1 it fails it.
//
// # Guarantees
//
//   - A server that was returned has answered a command, and was checked to be the one that was started: a stranger on the
//     same port is not taken for it.
//   - Its port is not given to another server of this package, in this process or in another one, while its owner lives, also
//     while the server is down. Ports come from below the range that systems use for outgoing connections.
//   - Kill, Pause and the copies act on the whole server (in PostgreSQL each connection is a process) at one instant: no part
//     of it runs on. What a killed server had handed to the operating system stays in its files.
//   - At the end of the test its processes have ended and its directory is removed. When the test process itself ends, however
//     it ends (os.Exit, a panic, a test timeout, kill -9), the same holds within seconds, for shared servers too.
//
// # What is not guaranteed
//
//   - Kill is not a power failure: the page cache survives. To lose acknowledged writes, use SaveCopy and RestoreCopy, or
//     RestartEmpty.
//   - The shared PostgreSQL server runs with fsync=off. A test about durability starts its own.
//   - Windows and systems other than Linux and macOS: everything compiles there, and every server is "not installed".
//
// # Errors
//
// Nothing returns an error: what fails ends the test with tb.Fatal and the server's log. So call the functions from
// the goroutine of the test. A server's log is also printed when its test has failed.
package testenv
