// Package gateway serves locks and fenced records over HTTP: an issuer and a store behind
// one handler, for programs in any language. [New] makes an [http.Handler] that can be
// mounted anywhere; package client is the Go side of it, package wire what travels.
//
// A client takes a lock (POST /v1/resources/{r}/lock), gets a token, and sends it with
// every operation (the header Fencing-Token, or tokens in a commit). The gateway holds
// no lease and renews nothing: its clients do. Only for one-call commits it takes locks itself.
//
// # Guarantees
//
//   - What the issuer and the store promise holds over HTTP; the four outcomes stay apart:
//     2xx is applied, 503 and 429 failed, 504 and 500 unknown, every other error refused.
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
//     other replies, errors, events or logs. API keys and backends' passwords are in none.
//   - Where there are keys (Options.Keys), a request without a good one reaches nothing but
//     the open routes: /livez, /readyz, /openapi.yaml, /problems. One with a key reaches a
//     backend only if the key has the route's scope and covers every resource that the
//     request names: in its path, its tokens, its operations, the prefix of its list. The
//     refusal is the same whether there is such a resource or not.
//   - What is refused for its limits (429, 503 overloaded, 503 draining, 413, 414) changed
//     nothing. Requests in work, waiters, event streams, bodies in memory and the callers
//     whose rates are counted are bounded, each on its own: waiters are not in the way of
//     commits, and neither are in the way of evictions, metrics and probes. No caller has more than
//     three quarters of the requests in work, of the streams, or of the memory for bodies.
//   - A key that is taken away or limited while its lock request waits gets no lock (401, 403): a
//     grant is given back. Every other request that was let in is finished; a stream ends.
//   - After [Gateway.Drain] nobody waits. A lock that was granted in that moment is either
//     delivered or given back.
//
// # One-call commits
//
// A commit with lock in place of tokens is lock, commit and release in one request, for changes
// that need no reading first. Its lock is an ordinary one: it waits behind whoever holds it or came
// before, holders elsewhere included, and its commit is judged by the store like any other.
//
//   - Those that come for one resource while another of them takes the lock, or works under it, join
//     it: one grant, each with its own verdict, its own wait and its own client. The store gets up
//     to 128 of them at once, which is what its batches and pipelines are made of. After 256 commits
//     or a second the lock is given back, so that others get their turn.
//   - Those of several resources take the locks in the order of the names, renew what they have while
//     they wait for the rest, and commit under all of them or none.
//   - With an Idempotency-Key the record of the key comes first: what was answered before is answered
//     again without a lock.
//   - A hold that is lost on the way (the gateway stood still, the store was restarted) is not the
//     client's affair: the store has refused the commit, and the gateway takes the lock again; if that
//     keeps happening, it is 503 failed. An outcome that is not known stays 504 unknown.
//   - One whose client has gone, or whose wait is over, before its commit was handed to the store is
//     not applied. While the gateway drains, those that wait are sent away, the others finish.
//   - Whoever was alone finds the lock free when it is answered, and is not in line for it any more,
//     unless the lock store takes longer than Options.Cleanup to say so. A lock that cannot be given back
//     does not change the answer; it is evicted, or ends after 3 s, its TTL, as where a gateway dies.
//     Until ten seconds after it was taken for a commit it is renewed, however long the store takes.
//
// Over a classic store there are none: an outside lock service has the locks.
//
// # What is not guaranteed
//
// Without Options.Keys there is no authentication: whoever reaches the handler may lock,
// write what a token covers, and evict; so may, on loopback, every process and every user
// of the machine. A key travels in clear where there is no TLS. Keys that are valid are
// not slowed down by wrong ones from the same address, for behind a proxy they share it:
// what keeps a key from being guessed are its 130 random bits. Bodies are counted as they
// came, a JSON body of at most 20,010 objects and elements of arrays; what is made of one, and the
// store's copy, may take several times as much. Values of replies are counted once they
// have been read from the store: of a list, eight at a time are not yet. A reply
// that reached the client's machine counts as delivered: a grant whose reader died in that
// moment ends with its TTL. The reads without a token are the store's plain reads. A list
// of records comes in parts and is no snapshot, nor is one of its pages. The handler sets no limits on connections
// and on slow senders: its server must (ReadHeaderTimeout, ReadTimeout); WriteTimeout and
// ReadTimeout are lengthened where a request waits. Client addresses are those of the
// connections: behind a proxy, all are the proxy's.
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
