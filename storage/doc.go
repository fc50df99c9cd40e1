// Package storage keeps records under guarded resources and refuses every operation
// whose token is not the resource's mark. [Store] is what callers use: it validates,
// applies the mode and sorts errors into outcomes. A [Backend] (memstore, sqlitestore,
// pgstore, redisstore) holds the data and makes the check and the write one atomic step.
//
// # Guarantees
//
// As long as the backend keeps what it acknowledged, or shows its loss as a new
// incarnation:
//
//   - A mark's number never goes back.
//   - No operation is accepted whose token is not the mark, checked in the same atomic
//     step as the operation; a fenced read ([Store.GetFenced]) is such an operation.
//   - A commit is all or nothing, over all its resources.
//   - A record's version grows by every change and is never used again for its key, not
//     even after a delete.
//   - A commit with an idempotency key ([Commit].Key) is applied at most once while the
//     record of it is kept, and the same commit sent again is answered as it was.
//   - The four outcomes are kept apart: nil is applied; an error that is refused had no
//     effect, ever; failed had no effect; else the answer is unknown. See
//     [fencing.OutcomeOf].
//
// # What is not guaranteed
//
// [Store.Get], [Store.List] and [Store.Mark] are plain reads: what they return may be
// old when it arrives, and a write computed from it is only safe if the read happened
// under the same grant (after the raise). Tasks that share one token are not protected
// from each other. An unknown outcome stays unknown, unless the
// commit had a key and is sent again. A classic store can be bricked by
// whoever may write to it with a huge number.
//
// # Clocks
//
// Numbers alone decide; a store looks at the time only to tell when an idempotency record has
// been kept for long enough.
//
// # Errors
//
//   - [*fencing.InvalidError]: a name, value or number outside its range.
//   - [*fencing.StaleError] (errors.Is fencing.ErrStale): the fence said no.
//   - [*RefusedError] (errors.Is [ErrVersionMismatch], [ErrBelowMinimum],
//     [ErrNotCounter], [ErrCounterRange]): the data said no; [ErrKeyReused]: the key is
//     another commit's.
//   - [ErrNotFound]: a read found no record.
//   - errors.Is fencing.ErrFailed: surely nothing happened, try again.
//   - errors.Is fencing.ErrUnknown: the reply was lost.
package storage
