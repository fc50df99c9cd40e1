package main

import (
	"crypto/sha256"

	"github.com/fencegate/fencegate/gateway/apikey"
)

// ring has its keys in memory. It knows only their hashes: how long a look-up takes says nothing
// of how much of a guess was right. (apikey.Open reads keys from a file that fencegate keys writes.)
type ring map[[sha256.Size]byte]apikey.Key

var _ apikey.Ring = ring(nil)

// newRing returns a ring with one key, for locks and records of coupons.
func newRing(text string) ring {
	return ring{sha256.Sum256([]byte(text)): {
		ID: "embed", Scopes: apikey.Lock | apikey.Write | apikey.Read, Prefixes: []string{"coupon:"},
	}}
}

// Find implements apikey.Ring.
func (r ring) Find(text string) (apikey.Key, bool) {
	k, ok := r[sha256.Sum256([]byte(text))]
	return k, ok
}
