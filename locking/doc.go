// Package locking grants locks with fencing tokens. A [Backend] is a lock store (memlock,
// redislock, redlock, pglock); an [Issuer] is the desk in front of it, which waits, grants and
// raises the token in the stores that guard the data; a [Locker] turns grants into leases
// that renew themselves and end when they can no longer be trusted.
//
// # Guarantees
//
//   - Numbers of one resource increase strictly from grant to grant, as long as the lock
//     store forgets nothing. When it forgets, a store refuses the number, and the issuer
//     asks for one above the store's mark; so no write of an older holder is accepted
//     either way.
//   - A lease is returned only after its token is the mark in every bound store: the
//     holder's first read follows its own raise.
//   - A number is sent to a store as a raise at most once, by the call that drew it. A
//     raise whose reply was lost is confirmed, never repeated; if it cannot be confirmed,
//     the hold gets a higher number.
//   - Renew, Release and Evict match a hold by number and grant and never touch another.
//   - A lease's context ends, with cause [ErrLost], when the lease can no longer be
//     trusted: on a renewal's answer, or at its deadline even if a renewal hangs. The
//     leases of a Locker are renewed together, and no deadline waits for a call.
//
// # Waiting
//
// Waiters of one Issuer stand in one line per resource, in order of arrival; the head of it
// alone asks the lock store. Where that keeps a line too ([Waiter]) the heads of all
// processes stand in it, a release gives the lock to the first that is alive, and nobody
// overtakes, attempts without waiting included, but for this: inside an issuer a release hands
// the lock to the next waiter in one call ([Transferrer]), up to 64 times or for one TTL in a row; then it
// is released, so that other processes have their turn.
//
// Word of a release is a hint: a waiter also asks every [LookEvery], and when the holder's
// time is up. A waiter that died or stands still loses its place after [PlaceTTL], and what
// it was given after [PushTTL]; by how much the dead delay the living at most, each lock store
// says with MaxStall. A dead holder delays them by its TTL. How many may wait is bounded
// (IssuerOptions.MaxWaiters, [ErrTooManyWaiters]).
//
// # What is not guaranteed
//
// That only one holder is at work. A paused holder does not notice that its time is up:
// what stops it is the store's refusal, for writes that a store checks, and nothing for
// effects that none does.
//
// An order between processes that is exact: a process takes its place in the lock store's line
// when its first waiter asks, or up to 50 ms after that where a holder of its own may hand
// over. A lock store without a line (redlock) has no order between processes at all.
//
// # Clocks
//
// A lock store counts a hold's time on its own clock. A lease counts on this process's
// monotonic clock, from before the request was sent, less an allowance for drift
// (Options.Drift). On Linux that clock stands still while the machine is suspended:
// a lease may then look alive for too long, and the store's refusal is what remains.
//
// What a lock store must be able to trust, and what happens when it may not:
//
//   - memlock: the process. After a restart it begins at 1, and is healed from the stores.
//   - redislock: that Redis keeps its keys (maxmemory-policy noeviction, an append-only file,
//     a replica that has everything) and that its clock runs evenly. After an eviction, a
//     flush, a failover that lost writes or a jump of the clock the lock may be held twice
//     and numbers may come again: the stores refuse them, and heal the counter.
//   - redlock: that of N masters a majority keeps what it knew, and their clocks run evenly.
//     A node that restarted or was flushed is noticed and stays out until it is re-admitted. One
//     that was declared durable and forgot all the same is like redislock's case.
//   - pglock: that Postgres keeps what it committed. After a failover that lost commits it
//     is like redislock's case; numbers heal from the marks of the same database at once.
//     Row locks trust the server to notice dead connections; it ends silent ones itself.
//
// Their Check and Warnings ([Checker]) say at the start what the server's settings may cost.
//
// # Errors
//
// [ErrHeld] (as [*HeldError]), [ErrLost], [ErrReleased] (a context's cause),
// [ErrExhausted], [ErrUnsettled], [ErrTooManyWaiters], fencing.ErrInvalid, and errors that
// carry their outcome; see fencing.OutcomeOf.
package locking
