package wire

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/fencegate/fencegate/fencing"
)

// Int is an integer that travels as a string of decimal digits, in its one shortest
// form: no plus sign, no leading zeros, no "-0".
type Int int64

// MarshalJSON implements [json.Marshaler].
func (n Int) MarshalJSON() ([]byte, error) {
	return strconv.AppendQuote(nil, strconv.FormatInt(int64(n), 10)), nil
}

// UnmarshalJSON implements [json.Unmarshaler]. A string that is no such integer is a
// [*fencing.InvalidError], anything but a string a type error.
func (n *Int) UnmarshalJSON(data []byte) error {
	s, err := text(data)
	if err != nil {
		return err
	}
	i, err := strconv.ParseInt(s, 10, 64)
	if err != nil || strconv.FormatInt(i, 10) != s {
		return invalid("integer", s, `decimal digits in a string, such as "34"`)
	}
	*n = Int(i)
	return nil
}

// Ptr returns n as an optional Int.
func Ptr(n int64) *Int { i := Int(n); return &i }

// Duration is a time.Duration that travels as a Go duration string: "1.5s", "250ms".
type Duration time.Duration

// MarshalJSON implements [json.Marshaler].
func (d Duration) MarshalJSON() ([]byte, error) {
	return strconv.AppendQuote(nil, time.Duration(d).String()), nil
}

// UnmarshalJSON implements [json.Unmarshaler], with the errors of [Int].
func (d *Duration) UnmarshalJSON(data []byte) error {
	s, err := text(data)
	if err != nil {
		return err
	}
	v, err := time.ParseDuration(s)
	if err != nil {
		return invalid("duration", s, `a number with a unit, such as "30s" or "250ms"`)
	}
	*d = Duration(v)
	return nil
}

// Span returns d as an optional Duration.
func Span(d time.Duration) *Duration { v := Duration(d); return &v }

// Bytes is a value that travels in base64: the standard alphabet, padded, nothing else.
type Bytes []byte

// MarshalJSON implements [json.Marshaler].
func (b Bytes) MarshalJSON() ([]byte, error) {
	out := make([]byte, 0, base64.StdEncoding.EncodedLen(len(b))+2)
	out = append(out, '"')
	out = base64.StdEncoding.AppendEncode(out, b)
	return append(out, '"'), nil
}

// UnmarshalJSON implements [json.Unmarshaler], with the errors of [Int].
func (b *Bytes) UnmarshalJSON(data []byte) error {
	s, err := text(data)
	if err != nil {
		return err
	}
	v, err := base64.StdEncoding.Strict().DecodeString(s)
	if err != nil || strings.ContainsAny(s, "\r\n") {
		return invalid("value", "", "base64, standard alphabet, padded")
	}
	*b = v
	return nil
}

// text reads a JSON string.
func text(data []byte) (string, error) {
	if len(data) < 2 || data[0] != '"' {
		return "", errNotString
	}
	// What encoding/json hands over is valid, and mostly what it looks like: to parse it again costs
	// a waiter of long polls 8 KiB of stack.
	if inner := data[1 : len(data)-1]; bytes.IndexByte(inner, '\\') < 0 {
		return string(inner), nil
	}
	var s string
	err := json.Unmarshal(data, &s)
	return s, err
}

// invalid is a *fencing.InvalidError whose Got is short and shows no secret.
func invalid(what, got, allowed string) error {
	if got != "" {
		const most = 40
		cut := ""
		got = Redact(got)
		if len(got) > most {
			got, cut = got[:most], "..."
		}
		got = strconv.QuoteToASCII(got) + cut
	}
	return &fencing.InvalidError{What: what, Got: got, Allowed: allowed}
}

// passwords finds what follows password= in a connection string, in quotes or not, and "password": in
// JSON. Where the quotes are not closed, it is all the rest.
var passwords = regexp.MustCompile(`(?is)(password\s*=\s*|password"\s*:\s*)(?:(?:'(?:[^'\\]|\\.)*(?:'|\\?$))+|"(?:[^"\\]|\\.)*(?:"|\\?$)|(?:[^\s"'\\]|\\.)+)`)

// port finds the beginning of what is after a colon and no password.
var port = regexp.MustCompile(`^[0-9]{1,5}(?:$|[^0-9A-Za-z@:])`)

// hideUserinfo hides what is between :// and an @ in every URL of s: the last @ before the line or
// the next URL ends, for a password may have an @, quotes and spaces. Rather too much is hidden than
// too little.
func hideUserinfo(s string) string {
	const mark = "://"
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(s, mark)
		b.WriteString(before)
		if !found {
			return b.String()
		}
		b.WriteString(mark)
		url := rest
		if end := strings.IndexByte(url, '\n'); end >= 0 {
			url = url[:end]
		}
		if next := strings.Index(url, mark); next >= 0 {
			url = url[:next]
		}
		word := url
		if end := strings.IndexAny(url, " \t\r\"'<>"); end >= 0 {
			word = url[:end]
		}
		_, after, colon := strings.Cut(word, ":")
		at := strings.LastIndexByte(url, '@')
		if strings.Contains(word, "@") || at >= 0 && colon && !port.MatchString(after+" ") {
			b.WriteString("[hidden]")
			rest = rest[at:]
		}
		s = rest
	}
}

// Redact hides every run of characters in s that could contain a grant id or the secret of an API
// key, and passwords in URLs and connection strings. It is for what strangers sent and for what
// goes to logs.
func Redact(s string) string {
	if strings.ContainsAny(s, `=:`) {
		s = passwords.ReplaceAllString(s, "${1}[hidden]")
	}
	if strings.Contains(s, "://") {
		s = hideUserinfo(s)
	}
	for run, i := 0, 0; i < len(s); i++ {
		if run++; !grantChar(s[i]) {
			run = 0
		}
		if run == fencing.GrantLen {
			return redact(s)
		}
	}
	return s
}

func redact(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		j := i
		for j < len(s) && grantChar(s[j]) {
			j++
		}
		switch {
		case j-i >= fencing.GrantLen:
			b.WriteString("[hidden]")
		case j > i:
			b.WriteString(s[i:j])
		default:
			b.WriteByte(s[i])
			j++
		}
		i = j
	}
	return b.String()
}

func grantChar(c byte) bool { return 'A' <= c && c <= 'Z' || '2' <= c && c <= '7' }
