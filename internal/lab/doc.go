// Package lab is the page at /lab/ on which fencing is learned by playing, and what runs behind it.
//
// What runs is real: the clients A and B are goroutines that call the HTTP API of a gateway over the
// configured lock and store. A pause parks one of them between two requests, together with its
// renewals. The page only sends commands and draws the events that come back.
//
// # Sessions
//
// A session is one run of the two clients under one [Mode]. Its resources are named
// lab:SESSION.coupon, lab:SESSION.stock: sessions share nothing, and nothing else can be reached
// through them. A session's id is 128 random bits and the only right that is needed to play in it.
// Sessions are capped in number, commands, events and age, and are forgotten when they are idle;
// what they leave in lock and store are the numbers of their two resources, and the answers to their
// idempotency keys for as long as the store keeps them: their locks are freed and their records deleted.
// Nothing drives a session from a page of another origin.
//
// # Clients
//
// A and B do one thing after another. Each request is a real one, over a connection in memory, to the
// very path that curl uses, and is recorded with its reply. Each third of the TTL a client that is
// awake renews what it believes to hold, without a word, until it is told that it is lost. A client
// that is paused sends nothing: what it is told to do is parked, and is done in order when it is
// resumed; a reply to a request that waits for a lock is not noticed before. A lease that was lost
// without the client's knowledge (expired by the operator, flushed, evicted) stays in its hands; and
// one that it knows to be lost still lends its token to the writes that it is told to send, for that is
// what programs do that do not look.
//
// # The truth
//
// Coupons handed out + remaining = 10: handed out are the accepted writes of which the clients know,
// remaining is what the store has. Whenever an event breaks the sum it says in its damage how, and
// whose update was lost. A second write of a task that is refused after the first was accepted is
// damage, too: a task half done.
//
// # Modes
//
// Each session has a gateway of its own over the lab's lock and store, under its mode's rules: for
// "none" and "lock" the check is defeated by what stands in front of it (a "current token" getter: every
// write gets a token that is good now), for "writes" the store is classic and hears of a token by the
// first write that bears it, for "grant" it is strict and the token is raised before the grant is answered.
//
// # HTTP, below the path where [Lab] is mounted
//
//	GET    /                             the page; /assets/… what it is made of
//	GET    /api/about                    About
//	POST   /api/sessions                 NewSession -> 201 State
//	GET    /api/sessions/{id}            State
//	DELETE /api/sessions/{id}            204
//	GET    /api/sessions/{id}/events     SSE: "event: event" with a trace.Event, its id the Seq (resumable by
//	                                     Last-Event-ID), "event: state" with a State whenever it has changed,
//	                                     "event: end" when the session is over
//	POST   /api/sessions/{id}/commands   Command -> 200 Done
//	       /api/sessions/{id}/gateway/…  the session's gateway, for curl: what the clients call, too
//
// Errors are application/problem+json, as in the gateway's API.
//
// # Mounting
//
//	l, err := lab.New(lab.Options{Lock: …, Store: …})
//	mux.Handle("/lab/", http.StripPrefix("/lab", l))
//	defer l.Close(ctx) // before lock and store are closed
//
// The lab asks nobody who they are: what a session's id opens is that session alone. A server in front
// of it should have a ReadHeaderTimeout; the lab lengthens other deadlines where a reply takes longer.
package lab
