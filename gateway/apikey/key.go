// Package apikey says who may do what at a gateway: keys, their scopes, the resources that they
// cover, and the file in which their hashes are.
package apikey

import (
	"strings"

	"github.com/fencegate/fencegate/fencing"
)

// Scope is a set of rights.
type Scope uint8

// The rights.
const (
	Lock  Scope = 1 << iota // take, renew and release locks
	Write                   // commit, put and delete records, with a token
	Read                    // read records, marks, the status of locks, events
	Admin                   // evict, and what tells of more than one's own resources

	All = Lock | Write | Read | Admin
)

var scopeNames = [...]string{"lock", "write", "read", "admin"}

// Has reports whether s contains all of want.
func (s Scope) Has(want Scope) bool { return s&want == want }

// String lists the rights, with commas.
func (s Scope) String() string { return strings.Join(s.Names(), ",") }

// Names lists the rights.
func (s Scope) Names() []string {
	var list []string
	for i, name := range scopeNames {
		if s&(1<<i) != 0 {
			list = append(list, name)
		}
	}
	return list
}

// ParseScope reads names of rights. Each must be known and come once, and there must be one; the
// error is a [*fencing.InvalidError].
func ParseScope(names []string) (Scope, error) {
	var s Scope
	for _, name := range names {
		one := Scope(0)
		for i, known := range scopeNames {
			if name == known {
				one = 1 << i
			}
		}
		if one == 0 || s.Has(one) {
			return 0, &fencing.InvalidError{What: "scopes", Allowed: "lock, write, read, admin, each at most once"}
		}
		s |= one
	}
	if s == 0 {
		return 0, &fencing.InvalidError{What: "scopes", Allowed: "one or more of lock, write, read, admin"}
	}
	return s, nil
}

// Key is what is known of a caller once its key was found. It contains no secret.
type Key struct {
	ID       string   // names the key in logs and lists; no secret
	Scopes   Scope    // what it may do
	Prefixes []string // it covers the resources that begin with one of them; none: all resources
	Rate     float64  // requests a second; 0: the gateway's default
}

// Covers reports whether the key may be used for a resource.
func (k Key) Covers(resource string) bool {
	for _, p := range k.Prefixes {
		if strings.HasPrefix(resource, p) {
			return true
		}
	}
	return len(k.Prefixes) == 0
}

// Ring finds keys by their text. It is safe for concurrent use.
type Ring interface {
	// Find returns the key of a text as it was presented. It takes the same time whether the
	// text is wrong in its first or in its last character.
	Find(text string) (Key, bool)
}
