// Package client is the gateway's other end: an [Issuer], which is a locking.Issuer like
// a local one, and a [Store] with the surface of a *storage.Store, both over HTTP.
//
//	c, err := client.New("http://127.0.0.1:8080", nil)
//	locker, err := locking.New(c.Issuer(), nil)
//	lease, err := locker.Acquire(ctx, "coupon:42")
//	version, err := c.Store().Put(ctx, lease.Token(), "stock", []byte("9"))
//
// # Guarantees
//
//   - Errors are those of the issuer and the store behind the gateway: errors.Is and
//     errors.As find the same; a [*fencing.StaleError] has the caller's own token.
//   - The four outcomes stay apart. What was surely not sent is failed; a lost reply is
//     unknown, except for reads, which have no effect to be unsure of.
//   - A request is repeated only where that is exact: a grant with the same grant id, a
//     renewal, a release, a read. A commit, an eviction and a raise are sent once.
//   - A grant whose reply was lost is asked for again and is the same hold. If that stays
//     without an answer or the context ends, the client tries to free what may have been
//     granted, for Options.Cleanup at most.
//   - Redirects are not followed: a token goes to the gateway that it was meant for, and
//     nowhere else.
//
// # What is not guaranteed
//
// After a lost reply the repeat of a release reports that nothing was freed, though the
// first one freed it. A list of records is fetched in parts and is no snapshot. A
// fenced read through something that strips headers is an error, not a plain read.
//
// # Clocks
//
// Granted.Waited counts from the first sending of the grant, on this process's monotonic
// clock: a holder that reckons from before its call errs on the safe side, however
// often the request was repeated.
//
// # Errors
//
// Those of packages locking and storage, and [*wire.Error] for problems that have no
// counterpart there.
package client
