package apikey

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// document is the file.
type document struct {
	Keys []row `json:"keys"`
}

// maxFile bounds the file in bytes.
const maxFile = 32 << 20

// decode reads a file's text: every member known and in it once, every key whole. Nobody should
// believe that a key is limited by a member that was misspelt.
func decode(data []byte) ([]Entry, error) {
	if err := unique(data); err != nil {
		return nil, err
	}
	var doc document
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&doc); err != nil {
		return nil, fmt.Errorf("it is not readable: %w", err)
	}
	if doc.Keys == nil {
		return nil, errors.New(`it is not readable: want {"keys": [...]}`)
	}
	if len(doc.Keys) > MaxKeys {
		return nil, fmt.Errorf("it has %d keys, want at most %d", len(doc.Keys), MaxKeys)
	}
	list := make([]Entry, len(doc.Keys))
	seen := make(map[string]bool, len(doc.Keys))
	for i := range doc.Keys {
		r := &doc.Keys[i]
		e, err := r.entry()
		if err != nil {
			return nil, fmt.Errorf("key %d (id %.20q): %w", i+1, r.ID, err)
		}
		if seen[e.ID] {
			return nil, fmt.Errorf("key %d (id %s): another key has this id", i+1, e.ID)
		}
		seen[e.ID] = true
		list[i] = e
	}
	return list, nil
}

func encode(list []Entry) []byte {
	doc := document{Keys: make([]row, len(list))}
	for i := range list {
		doc.Keys[i] = list[i].row()
	}
	data, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		panic(err) // rows always marshal
	}
	return append(data, '\n')
}

// unique wants one JSON value, in whose objects every name is in lower case and comes once:
// encoding/json would take the last one, and fold case.
func unique(data []byte) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	type level struct {
		names map[string]bool // nil in an array
		name  bool            // a name comes next
	}
	var stack []level
	for first := true; first || len(stack) > 0; first = false {
		tok, err := dec.Token()
		if err != nil {
			return fmt.Errorf("it is not readable: %w", err)
		}
		top := len(stack) - 1
		if s, ok := tok.(string); ok && top >= 0 && stack[top].name {
			if stack[top].names[s] {
				return fmt.Errorf("the member %.20q comes twice in one object", s)
			}
			if strings.ToLower(s) != s {
				return fmt.Errorf("the member %.20q is unknown", s)
			}
			stack[top].names[s], stack[top].name = true, false
			continue
		}
		switch tok {
		case json.Delim('{'):
			stack = append(stack, level{names: map[string]bool{}, name: true})
		case json.Delim('['):
			stack = append(stack, level{})
		case json.Delim('}'), json.Delim(']'):
			stack = stack[:top]
		case nil:
			return errors.New("it has a null: want the member left out")
		}
		if top = len(stack) - 1; top >= 0 && stack[top].names != nil {
			stack[top].name = true
		}
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("it is not readable: something follows the object")
	}
	return nil
}
