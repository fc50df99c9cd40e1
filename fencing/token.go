package fencing

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
)

// Token is a fencing token: the proof that a lock on Resource was granted. Numbers
// increase strictly from grant to grant of one resource. The grant id tells two
// grants apart that a forgetful lock service gave the same number, and nobody but the
// holder knows it: a token is a bearer secret.
//
// Every way of printing a Token hides its grant id; only [Token.Text] shows it. A
// Token without a grant id is an outside lock service's number, which only a classic
// store accepts.
type Token struct {
	Resource string // what is guarded, see [ValidateResource]
	Number   int64  // 1..MaxNumber
	Grant    string // the grant id, 26 characters, or empty; a secret
}

// ParseToken reads the text form of a token for a resource: "34.<grant id>", or "34"
// for an outside lock service's number. The text of a number has no sign and no
// leading zero, so that one token has one text. The error is an [*InvalidError] and
// never contains the text.
func ParseToken(resource, text string) (Token, error) {
	if err := ValidateResource(resource); err != nil {
		return Token{}, err
	}
	number, grant, dot := strings.Cut(text, ".")
	n, err := parseNumber(number)
	if err != nil || (dot && ValidateGrant(grant) != nil) {
		return Token{}, &InvalidError{
			What:    "token",
			Allowed: "a number from 1 to 9007199254740991, then a dot and the 26 characters of a grant id",
		}
	}
	return Token{Resource: resource, Number: n, Grant: grant}, nil
}

// ParseNumber reads a token's number: decimal digits, no sign, no leading zero,
// 1..MaxNumber. The error is an [*InvalidError].
func ParseNumber(text string) (int64, error) {
	n, err := parseNumber(text)
	if err != nil {
		return 0, &InvalidError{What: "number", Got: quote(text), Allowed: "1 to 9007199254740991, in digits"}
	}
	return n, nil
}

func parseNumber(text string) (int64, error) {
	if text == "" || len(text) > 16 || text[0] < '1' || text[0] > '9' {
		return 0, strconv.ErrSyntax
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, err
	}
	return n, ValidateNumber(n)
}

// Text returns the text form that ParseToken reads. It shows the secret: for the wire
// and for child processes, never for logs.
func (t Token) Text() string {
	if t.Grant == "" {
		return strconv.FormatInt(t.Number, 10)
	}
	return strconv.FormatInt(t.Number, 10) + "." + t.Grant
}

// Validate checks the token's resource, number and, where it has one, grant id. The
// error is an [*InvalidError].
func (t Token) Validate() error {
	if err := ValidateResource(t.Resource); err != nil {
		return err
	}
	if err := ValidateNumber(t.Number); err != nil {
		return err
	}
	if t.Grant == "" {
		return nil
	}
	return ValidateGrant(t.Grant)
}

// String returns "coupon:42#34": the token without its secret.
func (t Token) String() string { return t.Resource + "#" + strconv.FormatInt(t.Number, 10) }

// GoString hides the grant id from %#v.
func (t Token) GoString() string {
	return fmt.Sprintf("fencing.Token{Resource:%q, Number:%d}", t.Resource, t.Number)
}

// Format hides the grant id from every verb.
func (t Token) Format(f fmt.State, verb rune) {
	if verb == 'v' && f.Flag('#') {
		_, _ = io.WriteString(f, t.GoString())
		return
	}
	_, _ = io.WriteString(f, t.String())
}

// LogValue hides the grant id from log/slog.
func (t Token) LogValue() slog.Value {
	return slog.GroupValue(slog.String("resource", t.Resource), slog.Int64("number", t.Number))
}

// MarshalJSON hides the grant id. The number is a string, as everywhere in JSON here.
func (t Token) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Resource string `json:"resource"`
		Number   string `json:"number"`
	}{t.Resource, strconv.FormatInt(t.Number, 10)})
}

// UnmarshalJSON fails: the JSON form has no grant id, and a token read back from it
// would silently be another one. Send [Token.Text] and read it with [ParseToken].
func (t *Token) UnmarshalJSON([]byte) error {
	return &InvalidError{What: "token", Allowed: "its text form, read by ParseToken: the JSON form hides the grant id"}
}
