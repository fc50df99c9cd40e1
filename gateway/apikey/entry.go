package apikey

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/fencegate/fencegate/fencing"
)

// Entry is a key as the file has it: all but its secret, of which it has a hash. The secret has
// 130 random bits, so nobody finds it from the hash, and no salt is needed.
type Entry struct {
	Key
	Label   string    // what it is for: up to 200 characters of printable ASCII
	Created time.Time // in whole seconds
	Expires time.Time // from then on it is unknown; zero: never

	hash [sha256.Size]byte
}

// Limits of what an Entry and a file may be.
const (
	MaxKeys     = 10_000
	MaxPrefixes = 100
	MaxLabel    = 200
	MinRate     = 0.001 // requests a second
	MaxRate     = 1_000_000

	idLen     = 10
	secretMax = 64
	textStart = "fg_"
)

// issue gives e a new ID and a new secret, and returns the text of the key.
func (e *Entry) issue() string {
	secret := rand.Text()
	e.ID = strings.ToLower(rand.Text()[:idLen])
	e.hash = sha256.Sum256([]byte(secret))
	return textStart + e.ID + "_" + secret
}

// parse takes a key's text apart. The ID is no secret.
func parse(text string) (id, secret string, ok bool) {
	rest, ok := strings.CutPrefix(text, textStart)
	if !ok {
		return "", "", false
	}
	id, secret, ok = strings.Cut(rest, "_")
	return id, secret, ok && len(id) == idLen && secret != "" && len(secret) <= secretMax
}

func validID(id string) bool {
	ok := len(id) == idLen
	for i := 0; ok && i < len(id); i++ {
		ok = 'a' <= id[i] && id[i] <= 'z' || '2' <= id[i] && id[i] <= '7'
	}
	return ok
}

// Validate checks what is not made by this package: scopes, prefixes, rate, label. The error is a
// [*fencing.InvalidError].
func (e *Entry) Validate() error {
	if e.Scopes == 0 || !All.Has(e.Scopes) {
		return &fencing.InvalidError{What: "scopes", Allowed: "one or more of lock, write, read, admin"}
	}
	if len(e.Prefixes) > MaxPrefixes {
		return &fencing.InvalidError{What: "prefixes", Allowed: fmt.Sprintf("at most %d of them", MaxPrefixes)}
	}
	seen := map[string]bool{}
	for _, p := range e.Prefixes {
		if fencing.ValidateResource(p) != nil || seen[p] {
			return &fencing.InvalidError{
				What: "prefix", Got: strconv.QuoteToASCII(p),
				Allowed: "the beginning of a resource's name, each once: 1 to 200 characters of A-Z a-z 0-9 . _ : @ -, the first a letter or a digit; none at all for all resources",
			}
		}
		seen[p] = true
	}
	if e.Rate != 0 && (math.IsNaN(e.Rate) || e.Rate < MinRate || e.Rate > MaxRate) {
		return &fencing.InvalidError{What: "rate", Got: fmt.Sprint(e.Rate), Allowed: "0.001 to 1000000 requests a second, or none for the gateway's default"}
	}
	ok := len(e.Label) <= MaxLabel
	for i := 0; ok && i < len(e.Label); i++ {
		ok = e.Label[i] >= ' ' && e.Label[i] <= '~'
	}
	if !ok {
		return &fencing.InvalidError{What: "label", Allowed: "at most 200 characters of printable ASCII"}
	}
	return nil
}

// Expired reports whether the key is past its time.
func (e *Entry) Expired(now time.Time) bool { return !e.Expires.IsZero() && !now.Before(e.Expires) }

// row is an Entry in the file.
type row struct {
	ID       string     `json:"id"`
	Hash     string     `json:"sha256"` // of the secret, in hex
	Scopes   []string   `json:"scopes"`
	Prefixes []string   `json:"prefixes,omitempty"`
	Rate     float64    `json:"rate,omitempty"`
	Label    string     `json:"label,omitempty"`
	Created  time.Time  `json:"created"`
	Expires  *time.Time `json:"expires,omitempty"`
}

func (e *Entry) row() row {
	r := row{
		ID: e.ID, Hash: hex.EncodeToString(e.hash[:]), Scopes: e.Scopes.Names(), Prefixes: e.Prefixes,
		Rate: e.Rate, Label: e.Label, Created: e.Created,
	}
	if !e.Expires.IsZero() {
		r.Expires = &e.Expires
	}
	return r
}

func (r *row) entry() (e Entry, err error) {
	if !validID(r.ID) {
		return e, &fencing.InvalidError{What: "id", Allowed: "10 characters of a-z and 2-7"}
	}
	e = Entry{Key: Key{ID: r.ID, Prefixes: r.Prefixes, Rate: r.Rate}, Label: r.Label, Created: r.Created}
	hash, err := hex.DecodeString(r.Hash)
	if err != nil || len(hash) != len(e.hash) {
		return e, &fencing.InvalidError{What: "sha256", Allowed: "64 hexadecimal digits"}
	}
	copy(e.hash[:], hash)
	if e.Scopes, err = ParseScope(r.Scopes); err != nil {
		return e, err
	}
	if r.Prefixes != nil && len(r.Prefixes) == 0 {
		return e, &fencing.InvalidError{What: "prefixes", Got: "[]", Allowed: "one or more; no such member for all resources"}
	}
	if r.Expires != nil {
		if e.Expires = *r.Expires; e.Expires.IsZero() {
			return e, &fencing.InvalidError{What: "expires", Allowed: "a time, or no such member"}
		}
	}
	return e, e.Validate()
}
