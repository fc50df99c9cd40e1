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
// what they leave in lock and store is their few resources.
//
// # Modes
//
// Each mode is a gateway of its own over the same lock and store: for "none" and "lock" the check is
// defeated by what stands in front of it (a "current token" getter: every write gets a token that is
// good now), for "writes" the store is classic and hears of a token by the first write that bears it,
// for "grant" it is strict and the token is raised before the grant is answered.
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
package lab
