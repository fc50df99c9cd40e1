package memstore_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/storage"
	"github.com/fencegate/fencegate/storage/memstore"
)

// TestNamesAreCopied: a name is often a piece of a request. What the store keeps of it must not keep the
// rest, neither when the name is new nor when it comes again.
func TestNamesAreCopied(t *testing.T) { //nolint:paralleltest // it measures the heap of the process
	const rounds, size = 50, 1 << 20
	piece := func(name string) string { // of something large
		return strings.Repeat(name, size/len(name)+1)[:len(name)]
	}
	held := func(i int) fencing.Token {
		resource := string(rune('a'+i%26)) + strings.Repeat("x", i/26)
		return fencing.Token{Resource: piece(resource), Number: 1, Grant: strings.Repeat("A", fencing.GrantLen)}
	}
	for name, do := range map[string]func(b *memstore.Backend, tok fencing.Token) error{
		"a mark": func(*memstore.Backend, fencing.Token) error { return nil },
		"a record": func(b *memstore.Backend, tok fencing.Token) error {
			return apply(b, tok, "", storage.Put(tok.Resource, piece("k"), nil))
		},
		"a record, twice": func(b *memstore.Backend, tok fencing.Token) error {
			return errors.Join(apply(b, tok, "", storage.Put(tok.Resource, piece("k"), nil)), apply(b, tok, "", storage.Put(piece(tok.Resource), piece("k"), nil)))
		},
		"a base, twice": func(b *memstore.Backend, tok fencing.Token) error {
			var errs []error
			for range 2 {
				tok.Resource = piece(tok.Resource)
				errs = append(errs, apply(b, tok, "", storage.Put(tok.Resource, "k", nil)), apply(b, tok, "", storage.Delete(tok.Resource, "k")))
			}
			return errors.Join(errs...)
		},
		"an answer": func(b *memstore.Backend, tok fencing.Token) error {
			return apply(b, tok, piece("key"), storage.Require(tok.Resource, "none", 0))
		},
		"two answers": func(b *memstore.Backend, tok fencing.Token) error {
			return errors.Join(
				apply(b, tok, piece("key"), storage.Require(tok.Resource, "none", 0)),
				apply(b, tok, piece("yek"), storage.Require(tok.Resource, "none", 0)))
		},
	} {
		b := memstore.New(nil)
		before := heap()
		for i := range rounds {
			tok := held(i)
			if err := errors.Join(b.Raise(t.Context(), tok), do(b, held(i))); err != nil {
				t.Fatal(err)
			}
		}
		if got := heap() - before; got > rounds*size/10 {
			t.Errorf("%s: %d names keep %d KiB", name, rounds, got>>10)
		}
		runtime.KeepAlive(b)
	}
}

func apply(b *memstore.Backend, tok fencing.Token, key string, ops ...storage.Op) error {
	return b.Apply(context.Background(), []storage.Commit{{Tokens: []fencing.Token{tok}, Ops: ops, Key: key}})[0].Err
}
