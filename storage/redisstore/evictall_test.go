package redisstore_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/storage"
	"github.com/fencegate/fencegate/storage/redisstore"
)

// TestEvictAll retires the marks of one prefix, more than one step takes, and nothing else.
func TestEvictAll(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t, nil)
	c := connect(t, server)
	b := backend(t, c)
	other, err := redisstore.New(t.Context(), c, &redisstore.Options{Prefix: "other"})
	if err != nil {
		t.Fatal(err)
	}
	kept := raised(t, other, "r:1", 5)
	const marks = 2500
	tokens := make([]fencing.Token, marks)
	for i := range tokens {
		tokens[i] = raised(t, b, fmt.Sprintf("r:%d", i), int64(i+1))
	}
	if err := put(t.Context(), b, tokens[0], "a", "1"); err != nil {
		t.Fatal(err)
	}
	_, err = apply(t.Context(), b, []storage.Op{storage.Delete("r:0", "a")}, tokens[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Retire(t.Context(), tokens[7]); err != nil {
		t.Fatal(err)
	}
	// Neither is a mark.
	c.HSet(t.Context(), "fencegate:{-strange}:mark", "number", "1", "retired", "0")
	c.HSet(t.Context(), "fencegate:{r:1}:markers", "number", "1", "retired", "0")
	steps, last := 0, 0
	n, err := b.EvictAll(t.Context(), func(n int) { steps, last = steps+1, n })
	if n != marks-1 || err != nil || steps < 2 || last != n {
		t.Errorf("got %d, %v in %d steps, the last at %d, want %d", n, err, steps, last, marks-1)
	}
	for _, tok := range tokens {
		if m, err := b.Mark(t.Context(), tok.Resource); err != nil || m != (fencing.Mark{Number: tok.Number, Retired: true}) {
			t.Fatalf("got the mark %v, %v, want %d (retired)", m, err, tok.Number)
		}
	}
	wantReason(t, put(t.Context(), b, tokens[0], "a", "1"), fencing.Retired)
	if c.HGet(t.Context(), markKey("r:1"), "grant").Val() != "" {
		t.Error("a retired mark keeps its grant id")
	}
	for _, key := range []string{"fencegate:{-strange}:mark", "fencegate:{r:1}:markers"} {
		if c.HGet(t.Context(), key, "retired").Val() != "0" {
			t.Errorf("%s was touched", key)
		}
	}
	if err := put(t.Context(), other, kept, "a", "1"); err != nil {
		t.Errorf("a token of another prefix: %v", err)
	}
	// What else a mark keeps is kept: the version goes on.
	next := raised(t, b, "r:0", 2)
	if err := put(t.Context(), b, next, "a", "1"); err != nil {
		t.Fatal(err)
	}
	if rec, err := b.Get(t.Context(), "r:0", "a"); err != nil || rec.Version != 2 {
		t.Errorf("got version %d, %v, want 2", rec.Version, err)
	}
	if n, err := b.EvictAll(t.Context(), nil); n != 1 || err != nil {
		t.Errorf("again: got %d, %v, want the new one", n, err)
	}

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.EvictAll(ended, nil); fencing.OutcomeOf(err) != fencing.Failed {
		t.Errorf("a context that has ended: got %v, want failed", err)
	}
	server.Pause()
	raisedBefore, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := b.EvictAll(raisedBefore, nil); fencing.OutcomeOf(err) != fencing.Failed {
		t.Errorf("a scan without an answer: got %v, want failed", err)
	}
	server.Resume()
}

// TestEvictAllOnAReplica: a server that was replaced does not say that all is done.
func TestEvictAllOnAReplica(t *testing.T) {
	t.Parallel()
	first, second := testenv.StartRedis(t, quickSync), testenv.StartRedis(t, quickSync)
	b := backend(t, connect(t, first))
	raised(t, b, "r", 1)
	second.Follow(first.Addr())
	second.Promote()
	first.Follow(second.Addr())
	if _, err := b.EvictAll(t.Context(), nil); fencing.OutcomeOf(err) != fencing.Failed {
		t.Errorf("got %v, want failed", err)
	}
}
