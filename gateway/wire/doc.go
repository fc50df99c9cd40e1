// Package wire is what the gateway and its clients say to each other: every message
// ([LockRequest], [Commit], ...), every error ([Problem]), and the strict reading of
// JSON ([Decode]).
//
// # Guarantees
//
//   - One table translates errors in both directions ([FromError], [Problem.Err]), and
//     it only ever grows: a slug keeps its status, its outcome and its meaning.
//   - Across the wire errors.Is and errors.As find what they find on the gateway's own
//     side: [*fencing.StaleError], [*fencing.InvalidError], [*storage.RefusedError] with
//     its reason, storage.ErrNotFound, [*locking.HeldError], locking.ErrLost,
//     locking.ErrExhausted, locking.ErrUnsettled, locking.ErrTooManyWaiters, fencing.ErrFailed, fencing.ErrUnknown.
//     A StaleError comes without its token's grant id, which never travels back.
//   - What a problem tells is what its error type says of itself. Texts that were
//     wrapped around it, of drivers, with addresses, stay on the gateway's side.
//   - A run of 26 or more characters of a grant id's alphabet, which may be a secret
//     that was sent in a wrong place, is hidden from every echoed value ([Redact]).
//
// # JSON
//
// Numbers, versions and counters are strings ([Int]), so that no reader rounds them;
// durations are Go duration strings ([Duration]); values are base64 ([Bytes]). What
// the gateway reads, it reads strictly; what a client reads, it reads leniently, so that
// a newer gateway may say more.
package wire
