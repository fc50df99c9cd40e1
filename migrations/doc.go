// Package migrations holds the schema of fencegate's SQL stores, step by step, and moves
// a database to it. It is the only importer of golang-migrate.
//
// Nothing here runs by itself: a server database is migrated by "fencegate migrate up"
// and by nothing else. The embedded SQLite store migrates its own file when it opens it.
//
// # Guarantees
//
//   - Two processes never migrate one database at a time; the second waits, and finds the
//     work done.
//   - A step that the database refused leaves nothing behind: the version is what it was
//     before, and the step can be tried again.
//   - A process killed within a step leaves it done or not done, and maybe a note that it
//     is half done: the next one settles that by what the step itself wrote.
//   - A step that destroys data says so in the first line of its file, and runs only when
//     that was asked for.
//   - Looking (Version, List, SQL) changes nothing, creates nothing, takes no lock.
//   - A context that ends stops the work between two steps, never within one.
//
// # What is not guaranteed
//
// On Postgres the connection must be a direct one: the lock is bound to a
// session, and a transaction pooler hands sessions around.
//
// # Errors
//
//   - [*fencing.InvalidError]: a database URL or a number that is none.
//   - [*UnavailableError]: the server does not answer.
//   - [*DirtyError]: a step was left half done, and the database was changed by hand.
//   - [*NewerError]: the database is newer than this program.
//   - [*DestroysError]: a step down would destroy data, and that was not asked for.
//   - [ErrInUse]: another process has the SQLite file.
//
// # Rules for the .sql files
//
// The first line is a comment: what the step does, and in a down file that destroys
// data "-- destroys: " and what. Every name is qualified: with the schema fencegate on
// Postgres, with the prefix fencegate_ on SQLite. A file is run as one transaction and has no
// BEGIN or COMMIT of its own. It writes the version that it leads to into the table meta (the
// step down from 1 drops that). Versions begin at 1 and have no gaps.
//
// golang-migrate's version table is fencegate_migrations.version on Postgres, in a schema
// of its own that no step touches, and fencegate_migrations on SQLite. Both stay, empty,
// when every step was taken back.
package migrations
