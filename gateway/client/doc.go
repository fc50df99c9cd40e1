// Package client is the gateway's other end: an [Issuer], which is a locking.Issuer like
// a local one, and a [Store] with the surface of a *storage.Store, both over HTTP.
//
//	c, err := client.New("http://127.0.0.1:8080", nil)
//	locker, err := locking.New(c.Issuer(), nil)
//	lease, err := locker.Acquire(ctx, "coupon:42")
//	version, err := c.Store().Put(ctx, lease.Token(), "stock", []byte("9"))
//
// With [Options.Others] it knows several replicas of one gateway: while one is restarted, hangs
// or is sent away from, the calls go to another, the waiting ones too.
//
// # Guarantees
//
//   - Errors are those of the issuer and the store behind the gateway: errors.Is and
//     errors.As find the same; a [*fencing.StaleError] has the caller's own token.
//   - The four outcomes stay apart. What was surely not sent is failed; a lost reply is
//     unknown, except for reads, which have no effect to be unsure of.
//   - A request is repeated only where that is exact. After an attempt that surely did
//     nothing every one is, at another replica if there is one. After an unknown outcome it
//     is a grant with the same grant id, a renewal, a release, a read, a commit with a key;
//     another commit, a put, an eviction and a raise are not, neither at another replica.
//     Once an attempt is unknown, the call is, until the issuer or the store has answered:
//     what refuses the repeat at a gateway's door says nothing of the attempt before.
//   - Retry-After is honoured where no other replica can be asked, unless it is longer than
//     the context lasts or than Options.Timeout: then the error is returned at once.
//   - A grant whose reply was lost is asked for again and is the same hold. If that stays
//     without an answer or the context ends, the client tries to free what may have been
//     granted, for Options.Cleanup at most.
//   - Redirects are not followed: a token and the API key go to the gateway that they were
//     meant for, and nowhere else. No error shows them.
//
// # What is not guaranteed
//
// After a lost reply the repeat of a release reports that nothing was freed, though the
// first one freed it. A list of records is fetched in parts and is no snapshot. A
// fenced read through something that strips headers is an error, not a plain read.
//
// A waiting request that is moved to another replica joins the queue anew, at its end. What a
// load balancer answers for its gateway (502, 503, 504) is unknown: it may have sent the request on.
// A stream of events ([Client.Events]) shows what one replica does.
//
// # Clocks
//
// Granted.Waited counts from the first sending of the grant, on this process's monotonic
// clock: a holder that reckons from before its call errs on the safe side, however
// often the request was repeated.
//
// # Errors
//
// Those of packages locking and storage; [ErrUnauthorized], [ErrForbidden], [ErrRateLimited],
// [ErrOverloaded] and [ErrDraining] for what a gateway says at its door; and [*wire.Error] for every
// problem that has no counterpart there.
package client
