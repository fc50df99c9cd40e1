// Package gateway serves locks and fenced records over HTTP: an issuer and a store behind
// one handler, for programs in any language. [New] makes an [http.Handler] that can be
// mounted anywhere; package client is the Go side of it, package wire what travels.
//
// A client takes a lock (POST /v1/resources/{r}/lock), gets a token, and sends it with
// every operation (the header Fencing-Token, or tokens in a commit). The gateway holds
// no lease and renews nothing: its clients do.
//
// # Guarantees
//
//   - What the issuer and the store promise holds over HTTP; the four outcomes stay apart:
//     2xx is applied, 503 failed, 504 and 500 unknown, every other error refused.
//   - A request that was answered with 400, 403, 404, 405, 413, 415, 422 or 428 changed
//     nothing; but over a classic store a fenced operation has raised its token, and that
//     stays, whatever the data said.
//   - A resource has one name: path parameters are unescaped exactly once and must then
//     fit the grammar.
//   - A client that goes away while it waits for a lock leaves none behind: a grant whose
//     reply cannot be delivered is given back, unless the same grant was asked for again
//     through this gateway meanwhile. A repeat waits until the first request has ended; if
//     that ended without a grant, the repeat is answered 412 lease-lost, and a new grant id
//     is needed.
//   - A grant id is in the reply to the request that made it, and nowhere else: not in
//     other replies, errors, events or logs.
//
// # What is not guaranteed
//
// There is no authentication: whoever reaches the handler may lock, write what a token
// covers, and evict. A reply that reached the client's machine counts as delivered: a
// grant whose reader died in that moment ends with its TTL. The reads without a token are
// the store's plain reads. A list of records comes in parts and is no snapshot. The
// handler sets no limits on connections and on slow senders: its server must
// (ReadHeaderTimeout, ReadTimeout); a WriteTimeout is lengthened where a request waits.
//
// # Clocks
//
// The time between the issuer's answer and the reply is counted on the process's
// monotonic clock and taken off expires_in. expires_in counts from the reply, waited from
// the request's arrival; a holder that counts from before its own sending errs on the
// safe side.
//
// # Errors
//
// Every error is application/problem+json (RFC 9457); see [wire.Problem]. What a client
// sees is what the error's type says of itself; the whole text goes to Options.Logger.
package gateway
