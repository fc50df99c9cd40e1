// Package fencing is the rule of fencing: what a token is, what a store
// remembers of tokens, and when a store refuses one.
//
// A lock that ends by time cannot stop a holder that does not notice: a paused
// process wakes up, believes that it still holds the lock, and writes. Only the
// store that holds the data can refuse that write. It does so by remembering, per
// resource, the highest token it has seen (the [Mark]) and by refusing every
// operation whose [Token] is not that mark.
//
// # The rule
//
//	refuse  t.Number <  mark.Number                                               superseded
//	refuse  t.Number == mark.Number and (mark.Retired or t.Grant != mark.Grant)   retired, duplicate
//	refuse  t.Number >  mark.Number and the store is strict                       ungranted
//	refuse  t.Grant is empty and the store is strict                              grant required (before anything else)
//	accept  otherwise; a classic store raises the mark to t
//
// A resource that a store knows nothing of has the mark {floor, retired}; the floor
// is 0 unless old marks were pruned. A mark that was made in an earlier incarnation
// of the store counts as retired.
//
// # Guarantees
//
// This package is the arithmetic only: pure functions on values, safe for
// concurrent use, standard library only. That the check and the write are one atomic
// step, and that the mark is raised before the holder's first read, are promises of
// the stores (package storage) and of the issuer (package locking). [Fence] is what
// a store offers to an issuer.
//
// # What is not guaranteed
//
// A token proves that its holder was granted the lock, not that it still holds it
// anywhere else than in the store that just accepted it. The rule does not order
// two tasks that share one token.
//
// # Errors
//
// [ErrStale] (always as [*StaleError]) when a token was refused, [ErrInvalid] (always
// as [*InvalidError]) when a value is outside its grammar or range. [OutcomeOf]
// sorts every error of this module into the four outcomes: applied, refused, failed,
// unknown.
//
// Sources: M. Kleppmann, "How to do distributed locking" (2016), for the token and
// the check; M. Burrows, "The Chubby lock service" (OSDI 2006), section 2.4, for the
// sequencer it comes from.
package fencing
