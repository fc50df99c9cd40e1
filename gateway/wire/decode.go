package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/fencegate/fencegate/fencing"
)

const (
	// maxElements bounds the objects and the elements of arrays in one message, before anything is
	// made of them: 10,000 tokens, as many operations, and what is around them.
	maxElements = 20_010
	// maxMembers bounds the members of one object. No message has as many.
	maxMembers = 64
)

var errNotString = errors.New("wire: not a string")

// Decode reads data, which must be exactly one JSON object, into the message v. Beyond
// encoding/json it refuses what two readers could understand differently: members that
// are unknown, come twice, or differ from the message's in case only; null; text that is
// no UTF-8, or half a surrogate pair. It also refuses, before it decodes them, more elements than
// any request can need: an empty one is three bytes, and two hundred in memory. The error is [Malformed], or a
// [*fencing.InvalidError] where a string is outside its grammar.
func Decode(data []byte, v any) error {
	if err := scan(data); err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	err := dec.Decode(v)
	if err == nil || errors.Is(err, fencing.ErrInvalid) {
		return err
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		kind, _, _ := strings.Cut(wrong.Value, " ") // "number 12" would show the value
		return Malformed("%s must not be %s %s", member(wrong.Field), article(kind), kind)
	}
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return Malformed("unknown member %s", strings.Trim(name, `"`)) // scan has seen to its form
	}
	return Malformed("a member has the wrong type: numbers, durations and values are strings")
}

func member(path string) string {
	if path == "" {
		return "the body"
	}
	return path
}

func article(noun string) string {
	if strings.IndexByte("aeiou", noun[0]) >= 0 {
		return "an"
	}
	return "a"
}

// scan walks the whole text once. A member's name must be of the letters that the
// messages use: encoding/json would fold case.
func scan(data []byte) error {
	if !utf8.Valid(data) {
		return Malformed("the body is not UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	type level struct {
		object bool
		names  map[string]bool // of an object's members so far
		name   bool            // a member's name comes next
	}
	var stack []level
	elements := 0
	for first := true; first || len(stack) > 0; first = false {
		tok, err := dec.Token()
		if err != nil {
			return Malformed("the body is not one complete JSON object")
		}
		if first && tok != json.Delim('{') {
			return Malformed("the body is not a JSON object")
		}
		top := len(stack) - 1
		if s, ok := tok.(string); ok && top >= 0 && stack[top].name {
			switch {
			case !plainName(s):
				return Malformed("unknown member")
			case stack[top].names[s]:
				return Malformed("the member %s comes twice", s)
			case len(stack[top].names) == maxMembers:
				return Malformed("an object has too many members")
			}
			if stack[top].names == nil {
				stack[top].names = map[string]bool{}
			}
			stack[top].names[s], stack[top].name = true, false
			continue
		}
		end := tok == json.Delim('}') || tok == json.Delim(']')
		if !end && (tok == json.Delim('{') || top >= 0 && !stack[top].object) {
			if elements++; elements > maxElements {
				return Malformed("the body has too many elements: want at most %d objects and elements of arrays in all", maxElements)
			}
		}
		switch tok {
		case json.Delim('{'):
			stack = append(stack, level{object: true, name: true})
		case json.Delim('['):
			stack = append(stack, level{})
		case json.Delim('}'), json.Delim(']'):
			stack = stack[:top]
		case nil:
			return Malformed("null is not allowed: leave the member out")
		}
		if s, ok := tok.(string); ok && strings.ContainsRune(s, utf8.RuneError) {
			return Malformed("a string is not valid Unicode")
		}
		if len(stack) > 6 {
			return Malformed("the body is nested too deeply")
		}
		// A value has ended, or an object has begun: either way a name comes next.
		if top = len(stack) - 1; top >= 0 && stack[top].object {
			stack[top].name = true
		}
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return Malformed("something follows the JSON object")
	}
	return nil
}

func plainName(s string) bool {
	for i := range len(s) {
		if c := s[i]; c != '_' && (c < 'a' || c > 'z') {
			return false
		}
	}
	return s != "" && len(s) <= 32
}

// Malformed is the error of a request that cannot be read: 400.
func Malformed(format string, args ...any) *Error {
	return NewError(SlugMalformed, fmt.Sprintf(format, args...))
}
