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
//     trusted: on a renewal's answer, or at its deadline even if a renewal hangs.
//
// # What is not guaranteed
//
// That only one holder is at work. A paused holder does not notice that its time is up:
// what stops it is the store's refusal, for writes that a store checks, and nothing for
// effects that none does. Waiters of one Issuer are served in order of arrival; attempts
// without waiting may overtake them, and so may other processes.
//
// # Clocks
//
// A lock store counts a hold's time on its own clock. A lease counts on this process's
// monotonic clock, from before the request was sent, less an allowance for drift
// (Options.Drift). On Linux that clock stands still while the machine is suspended:
// a lease may then look alive for too long, and the store's refusal is what remains.
//
// # Errors
//
// [ErrHeld] (as [*HeldError]), [ErrLost], [ErrReleased] (a context's cause),
// [ErrExhausted], [ErrUnsettled], fencing.ErrInvalid, and errors that carry their
// outcome; see fencing.OutcomeOf.
package locking
