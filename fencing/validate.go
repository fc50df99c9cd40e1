package fencing

import (
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
)

// MaxNumber is the highest number a token can have, 2^53-1: the largest integer that
// Lua, JavaScript and JSON readers carry without loss.
const MaxNumber = 1<<53 - 1

// MaxNameLen is the length limit, in bytes, of resources and record keys.
const MaxNameLen = 200

// GrantLen is the length of a grant id.
const GrantLen = 26

// ErrInvalid matches every [*InvalidError].
var ErrInvalid = errors.New("fencing: invalid value")

// InvalidError says which value was outside its grammar or range, and what is
// allowed. Nothing was written.
type InvalidError struct {
	What    string // which value: "resource", "key", "grant", "number", "token", ...
	Got     string // the value, shortened; empty for secrets
	Allowed string // what is allowed, in words
}

// Error implements error.
func (e *InvalidError) Error() string {
	if e.Got == "" {
		return fmt.Sprintf("invalid %s: want %s", e.What, e.Allowed)
	}
	return fmt.Sprintf("invalid %s %s: want %s", e.What, e.Got, e.Allowed)
}

// Is reports whether target is [ErrInvalid].
func (e *InvalidError) Is(target error) bool { return target == ErrInvalid }

// Outcome is [Refused]: an invalid value is never written.
func (e *InvalidError) Outcome() Outcome { return Refused }

const nameGrammar = "1 to 200 characters of A-Z a-z 0-9 . _ : @ -, the first a letter or a digit"

// ValidateResource checks the name of a resource: [A-Za-z0-9][A-Za-z0-9._:@-]{0,199}.
// The grammar is safe in a path, a log, SQL and a Redis hash tag; a name outside it is
// refused, never folded, hashed or cut. The error is an [*InvalidError].
func ValidateResource(name string) error { return validateName("resource", name) }

// ValidateKey checks the key of a record; its grammar is that of resources. The error
// is an [*InvalidError].
func ValidateKey(key string) error { return validateName("key", key) }

func validateName(what, name string) error {
	ok := name != "" && len(name) <= MaxNameLen && isAlnum(name[0])
	for i := 1; ok && i < len(name); i++ {
		c := name[i]
		ok = isAlnum(c) || c == '.' || c == '_' || c == ':' || c == '@' || c == '-'
	}
	if ok {
		return nil
	}
	return &InvalidError{What: what, Got: quote(name), Allowed: nameGrammar}
}

func isAlnum(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

// NewGrant returns a new grant id: 26 characters of [A-Z2-7], 130 random bits from
// crypto/rand.
func NewGrant() string { return rand.Text() }

// ValidateGrant checks a grant id: 26 characters of [A-Z2-7]. The error is an
// [*InvalidError] and does not contain the grant id, which is a secret.
func ValidateGrant(grant string) error {
	ok := len(grant) == GrantLen
	for i := 0; ok && i < len(grant); i++ {
		c := grant[i]
		ok = 'A' <= c && c <= 'Z' || '2' <= c && c <= '7'
	}
	if ok {
		return nil
	}
	return &InvalidError{What: "grant id", Allowed: "26 random characters of A-Z and 2-7"}
}

// ValidateNumber checks that n is in 1..[MaxNumber]. The error is an [*InvalidError].
func ValidateNumber(n int64) error {
	if n >= 1 && n <= MaxNumber {
		return nil
	}
	return &InvalidError{
		What: "number", Got: strconv.FormatInt(n, 10),
		Allowed: "1 to 9007199254740991",
	}
}

// quote shortens what a stranger sent to what fits a log line.
func quote(s string) string {
	const most = 60
	if len(s) > most {
		return strconv.QuoteToASCII(s[:most]) + fmt.Sprintf("... (%d bytes)", len(s))
	}
	return strconv.QuoteToASCII(s)
}
