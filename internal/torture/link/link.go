// Package link is a TCP address in front of a server, which delays, drops, resets, holds and repeats
// what passes, in each direction by itself, and which stays while the server behind it changes.
//
// It is toxiproxy in this process, with toxics of our own where that has none.
package link

import "time"

// Direction is that of the bytes.
type Direction string

// The directions.
const (
	Requests Direction = "requests" // from the client to the server
	Replies  Direction = "replies"  // from the server to the client
)

// Trouble is what is done to what passes. The zero value is none. Every field is for itself, and they combine.
type Trouble struct {
	Latency, Jitter time.Duration
	Bandwidth       int64   // bytes a second; 0: unlimited
	Silent          bool    // nothing passes, and nobody is told: a partition in this direction
	HalfOpen        bool    // the connections that are open pass nothing more, and are never closed; new ones work
	ResetShare      float64 // after each message this share of the connections is reset, 0..1: with Replies the request was carried out and its answer is lost
	HoldShare       float64 // this share of the messages is held for up to HoldFor, and delivered late; others of the connection wait behind it
	HoldFor         time.Duration
	RepeatShare     float64 // this share of the requests is delivered once more, on a connection of its own, after up to HoldFor: a late duplicate
	Cut             bool    // connections are refused and open ones closed
}

// Link is such an address. It is safe for concurrent use.
type Link struct{}

// New returns a link to the server at to ("127.0.0.1:PORT").
func New(to string) (*Link, error) { panic("not written yet") }

// Addr returns "127.0.0.1:PORT". It never changes.
func (l *Link) Addr() string { panic("not written yet") }

// MoveTo cuts all connections, and leads new ones to the server at to; nowhere where it is empty.
func (l *Link) MoveTo(to string) { panic("not written yet") }

// Trouble replaces what is done to what passes in a direction, for connections that are open and for new ones.
// seed decides which messages are held, repeated or lose their connection.
func (l *Link) Trouble(d Direction, t Trouble, seed uint64) error { panic("not written yet") }

// Heal ends all trouble. Connections on which something was withheld are reset.
func (l *Link) Heal() { panic("not written yet") }

// Close ends the link and its connections.
func (l *Link) Close() { panic("not written yet") }
