package storage

import "context"

// AllEvicter is what a Backend may offer to operators: an end of every token at once, for
// what no incarnation shows (a dump that was loaded into a running database, rows edited by
// hand). It is safe for concurrent use, beside everything else.
type AllEvicter interface {
	// EvictAll retires every mark: each keeps its number and equals no token any more.
	// Once it has returned nil, every token that was the mark of its resource before the call
	// began is refused, and transactions of it that were in flight have ended. Tokens that are
	// raised during the call may be retired or not; the lock stores are not asked, so locks
	// that are held stay held until they are released or their time is up.
	//
	// It goes in small steps, so that the store serves others meanwhile, and it says how many
	// marks it retired, those not counted that were retired before. progress, which may
	// be nil, is called after each step with the number so far.
	//
	// After an error it may be called again: what is retired stays so. The outcome is failed
	// only if nothing was retired.
	EvictAll(ctx context.Context, progress func(evicted int)) (evicted int, err error)
}
