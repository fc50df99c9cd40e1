// Package sqlitestore is the embedded storage backend: one SQLite file, no server. It is
// also the fence in front of your own tables in the same file ([Backend.Update]).
//
// # Guarantees
//
// Those of package storage, as long as the disk keeps what it acknowledged.
//
//   - One process has the file: a second [Open], from this or another process, is an
//     error that names the file. The lock is a lock of the system on the file PATH.lock and
//     ends with its process, however that ends. The lock file stays.
//   - One writer: a check and its write are one transaction that has the write lock from
//     its beginning (BEGIN IMMEDIATE).
//   - What was acknowledged is on the disk (WAL, synchronous=FULL). A process that is
//     killed loses nothing of it.
//   - The schema comes with Open, also where an Open before was killed on its way.
//   - Every Open is a new incarnation: the tokens of the run before are refused.
//   - Concurrent calls are combined into one transaction (group commit), each judged on
//     its own merits. If that transaction fails, so does every call in it, those that it
//     would have refused too: what refused them may never have happened.
//   - A call whose context ends while its COMMIT is on its way does not wait for the disk; it is
//     unknown. A context that cannot end (context.Background) spares a lone call a goroutine.
//
// # What is not guaranteed
//
// The file of a running store that is copied over, restored or edited by another program
// shows no new incarnation: stop the store first. A program that runs a store must not open
// the file by other means than this package and its driver, not even to look: when any
// descriptor of the file is closed, the system drops the locks of the whole process, and the
// next other program that looks deletes the WAL. Symbolic links are followed to the one
// name that is locked; a hard link or a bind mount of the single file is a second name that
// nothing recognises. File systems without locks or shared
// memory (most network ones) are not for SQLite. An [Backend.Update] holds the writer:
// while its function runs, nothing else is written.
//
// # Clocks
//
// None decides what is accepted. The system's clock tells when an idempotency record is overdue
// (Options.KeyRetention): where it leaps forward, records go too early. Timeouts are the context's.
//
// # Errors
//
// Those of package storage. Whatever goes wrong before COMMIT is failed. A COMMIT that
// was refused is failed too (the disk is full, somebody else has locked the file); after an
// input/output error it is unknown: the pages may be on the disk, and be found there by
// the next run. The same holds for a commit of one Put, which may be one statement. [ErrClosed] after [Backend.Close], [ErrInUse] from [Open].
package sqlitestore
