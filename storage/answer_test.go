package storage_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/storage"
)

func TestKeyID(t *testing.T) {
	t.Parallel()
	a, b := fencing.Token{Resource: "a", Number: 1}, fencing.Token{Resource: "b", Number: 2}
	for name, c := range map[string]struct {
		commit storage.Commit
		want   storage.RecordID
		ok     bool
	}{
		"no key":         {storage.Commit{Tokens: []fencing.Token{a}}, storage.RecordID{}, false},
		"no token":       {storage.Commit{Key: "k"}, storage.RecordID{}, false},
		"the lowest":     {storage.Commit{Tokens: []fencing.Token{a, b}, Key: "k"}, storage.RecordID{Resource: "a", Key: "k"}, true},
		"in any order":   {storage.Commit{Tokens: []fencing.Token{b, a}, Key: "k"}, storage.RecordID{Resource: "a", Key: "k"}, true},
		"no operation":   {storage.Commit{Tokens: []fencing.Token{b}, Key: "k"}, storage.RecordID{Resource: "b", Key: "k"}, true},
		"not operations": {storage.Commit{Tokens: []fencing.Token{b}, Ops: []storage.Op{storage.Put("a", "x", nil)}, Key: "k"}, storage.RecordID{Resource: "b", Key: "k"}, true},
	} {
		if got, ok := c.commit.KeyID(); got != c.want || ok != c.ok {
			t.Errorf("%s: got %v, %t, want %v, %t", name, got, ok, c.want, c.ok)
		}
	}
}

// TestFingerprint: what is another commit has another fingerprint; tokens are no part of it.
// The one that is written out must never change: kept records of an earlier release have it.
func TestFingerprint(t *testing.T) {
	t.Parallel()
	tokens := []fencing.Token{{Resource: "r", Number: 5, Grant: grantA}}
	of := func(tokens []fencing.Token, ops ...storage.Op) storage.Fingerprint {
		return storage.Commit{Tokens: tokens, Ops: ops, Key: "k"}.Fingerprint()
	}
	seen := map[storage.Fingerprint]string{}
	for name, f := range map[string]storage.Fingerprint{
		"none":            of(tokens),
		"put":             of(tokens, storage.Put("r", "a", []byte("b"))),
		"put, shifted":    of(tokens, storage.Put("r", "ab", nil)),
		"delete":          of(tokens, storage.Delete("r", "a")),
		"add":             of(tokens, storage.Add("r", "a", 1, 0)),
		"add, other way":  of(tokens, storage.Add("r", "a", 0, 1)),
		"add, negative":   of(tokens, storage.Add("r", "a", -1, 0)),
		"require":         of(tokens, storage.Require("r", "a", 1)),
		"require another": of(tokens, storage.Require("r", "a", 2)),
		"two":             of(tokens, storage.Put("r", "a", nil), storage.Delete("r", "b")),
		"two, turned":     of(tokens, storage.Delete("r", "b"), storage.Put("r", "a", nil)),
		"more resources":  of(append([]fencing.Token{{Resource: "s", Number: 1}}, tokens...), storage.Put("r", "a", []byte("b"))),
		"other resource":  of([]fencing.Token{{Resource: "s", Number: 1}}, storage.Put("r", "a", []byte("b"))),
	} {
		if other, ok := seen[f]; ok {
			t.Errorf("%s and %s have one fingerprint", name, other)
		}
		seen[f] = name
	}
	const kept = "b3748e5e4a419a28cf4a2e900e8d1dccde467b3df7e050c18d037e29b1e76cf8"
	if got := fmt.Sprintf("%x", of(tokens, storage.Put("r", "a", []byte("b")))); got != kept {
		t.Errorf("got the fingerprint %s, want %s", got, kept)
	}
	later := []fencing.Token{{Resource: "r", Number: 6, Grant: grantB}}
	put := storage.Put("r", "a", []byte("b"))
	if of(tokens, put) != of(later, put) {
		t.Error("the token is part of the fingerprint")
	}
	s := fencing.Token{Resource: "s", Number: 1}
	if of([]fencing.Token{tokens[0], s}, put) != of([]fencing.Token{s, tokens[0]}, put) {
		t.Error("the order of tokens is part of the fingerprint")
	}
	if of(tokens, storage.Put("r", "a", nil)) != of(tokens, storage.Put("r", "a", []byte{})) {
		t.Error("nil and empty are two values")
	}
}

// TestAnswerText: an answer comes back as it was, to the last digit.
func TestAnswerText(t *testing.T) {
	t.Parallel()
	f := storage.Fingerprint{1, 2, 3}
	for name, a := range map[string]storage.Answer{
		"applied": {Result: storage.Result{Ops: []storage.OpResult{
			{}, {Version: 1}, {Version: 2, Counter: storage.MaxCounter}, {Version: 3, Counter: -storage.MaxCounter}, {Version: 1<<63 - 1},
		}}},
		"nothing": {},
		"version": {Refused: &storage.RefusedError{Op: 1, Resource: "r", Key: "k", Reason: storage.ErrVersionMismatch, Have: 1<<63 - 1, Want: 2}},
		"minimum": {Refused: &storage.RefusedError{Resource: "r", Key: "k", Reason: storage.ErrBelowMinimum, Have: -3, Want: -storage.MaxCounter}},
		"counter": {Refused: &storage.RefusedError{Resource: "r", Key: "k", Reason: storage.ErrNotCounter}},
		"range":   {Refused: &storage.RefusedError{Resource: "r", Key: "k", Reason: storage.ErrCounterRange, Have: storage.MaxCounter}},
	} {
		a.Fingerprint, a.Number = f, 7
		got, err := storage.ParseAnswer(f, 7, a.Text())
		if err != nil || !reflect.DeepEqual(got, a) {
			t.Errorf("%s: got %+v, %v, want %+v", name, got, err, a)
		}
	}
	for _, text := range []string{"", "{", "[]", `{"refused":{"reason":"later"}}`, `{"refused":{}}`, `{"ops":[["1","2"]]}`} {
		if a, err := storage.ParseAnswer(f, 7, []byte(text)); err == nil || !strings.Contains(err.Error(), "idempotency record") {
			t.Errorf("%s: got %+v, %v, want an error that says what it read", text, a, err)
		}
	}
}

// TestAnswerTextIsKept: these texts must never change: kept records of an earlier release have them.
func TestAnswerTextIsKept(t *testing.T) {
	t.Parallel()
	refused := func(reason error) storage.Answer {
		return storage.Answer{Refused: &storage.RefusedError{Op: 1, Resource: "r", Key: "k", Reason: reason, Have: 3, Want: -4}}
	}
	for kept, a := range map[string]storage.Answer{
		`{}`:                           {},
		`{"ops":[[1,0],[2,-7],[0,0]]}`: {Result: storage.Result{Ops: []storage.OpResult{{Version: 1}, {Version: 2, Counter: -7}, {}}}},
		`{"refused":{"op":1,"resource":"r","key":"k","reason":"version","have":3,"want":-4}}`: refused(storage.ErrVersionMismatch),
		`{"refused":{"op":1,"resource":"r","key":"k","reason":"minimum","have":3,"want":-4}}`: refused(storage.ErrBelowMinimum),
		`{"refused":{"op":1,"resource":"r","key":"k","reason":"counter","have":3,"want":-4}}`: refused(storage.ErrNotCounter),
		`{"refused":{"op":1,"resource":"r","key":"k","reason":"range","have":3,"want":-4}}`:   refused(storage.ErrCounterRange),
	} {
		if got := string(a.Text()); got != kept {
			t.Errorf("got %s, want %s", got, kept)
		}
		if got, err := storage.ParseAnswer(a.Fingerprint, 0, []byte(kept)); err != nil || !reflect.DeepEqual(got, a) {
			t.Errorf("%s: got %+v, %v, want %+v", kept, got, err, a)
		}
	}
}
