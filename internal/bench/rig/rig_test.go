package rig_test

import (
	"context"
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/internal/bench/rig"
	"github.com/fencegate/fencegate/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func TestCommandsInPieces(t *testing.T) {
	t.Parallel()
	sent := "*1\r\n$4\r\nping\r\n" +
		"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$12\r\n*1\r\n$4\r\nPI\r\n\r\n" + // a value that looks like a command
		"*2\r\n$3\r\nget\r\n$0\r\n\r\n"
	for size := 1; size <= len(sent); size++ {
		var c rig.Commands
		got := 0
		for rest := sent; rest != ""; {
			k := min(size, len(rest))
			got += c.Count([]byte(rest[:k]))
			rest = rest[k:]
		}
		if got != 2 {
			t.Errorf("in pieces of %d: %d commands, want 2", size, got)
		}
	}
}

func TestProxyCountsAndDelays(t *testing.T) {
	t.Parallel()
	server := testenv.SharedRedis(t)
	const delay = 20 * time.Millisecond
	p := rig.StartProxy(t, server.Addr(), delay)
	var trips rig.Trips
	c := rig.Client(t, p.Addr(), 1, &trips)
	if _, err := c.Pipelined(t.Context(), func(p redis.Pipeliner) error { return p.Ping(t.Context()).Err() }); err != nil { // connect
		t.Fatal(err)
	}
	start := time.Now()
	pipe := c.Pipeline()
	for range 5 {
		pipe.Exists(t.Context(), "bench-nothing")
	}
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took < 2*delay {
		t.Errorf("a round trip took %v, want at least %v", took, 2*delay)
	}
	if got := p.Commands(); got != 5 {
		t.Errorf("%d commands, want 5", got)
	}
	if got := p.Trips(); got != 1 {
		t.Errorf("the proxy saw %d round trips, want 1", got)
	}
	if got := trips.Count(); got != 1 {
		t.Errorf("the hook saw %d round trips, want 1", got)
	}
}

func TestQuestionsInPieces(t *testing.T) {
	t.Parallel()
	message := func(kind string, body string) string {
		return kind + string(binary.BigEndian.AppendUint32(nil, uint32(len(body)+4))) + body
	}
	sent := message("", "\x00\x03\x00\x00user\x00Q\x00\x00") + // the first has no type
		message("Q", "select 'S'\x00") +
		message("P", "\x00S\x00\x00\x00") + message("S", "") +
		message("B", "SQSQ") + message("E", "\x00\x00\x00\x00\x00") + message("S", "") +
		message("X", "")
	for size := 1; size <= len(sent); size++ {
		var q rig.Questions
		got := 0
		for rest := sent; rest != ""; {
			k := min(size, len(rest))
			got += q.Count([]byte(rest[:k]))
			rest = rest[k:]
		}
		if got != 3 {
			t.Errorf("in pieces of %d: %d questions, want 3", size, got)
		}
	}
}

// A batch is one round trip, a transaction around a statement is three.
func TestPostgresProxyCountsRoundTrips(t *testing.T) {
	t.Parallel()
	server := testenv.SharedPostgres(t)
	p := rig.StartPostgresProxy(t, server.Addr())
	url, err := rig.Through(server.URL(), p)
	if err != nil {
		t.Fatal(err)
	}
	pool, err := rig.Pool(t.Context(), t, url, 1)
	if err != nil {
		t.Fatal(err)
	}
	statement := func() error {
		_, err := pool.Exec(t.Context(), "select 1")
		return err
	}
	batch := func() error {
		var b pgx.Batch
		b.Queue("select 1")
		b.Queue("select 1")
		return pool.SendBatch(t.Context(), &b).Close()
	}
	transaction := func() error {
		return pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			_, err := tx.Exec(t.Context(), "select 1")
			return err
		})
	}
	for _, test := range []struct {
		name string
		do   func() error
		want int64
	}{{"statement", statement, 1}, {"batch", batch, 1}, {"transaction", transaction, 3}} {
		var before int64
		for range 2 { // the first connects and prepares
			before = p.Trips()
			if err := test.do(); err != nil {
				t.Fatal(err)
			}
		}
		if got := p.Trips() - before; got != test.want {
			t.Errorf("%s: %d round trips, want %d", test.name, got, test.want)
		}
	}
}

// What would end a test ends Run, and what it started is cleaned up.
func TestHostEndsAsATestWould(t *testing.T) {
	t.Parallel()
	cleaned := ""
	err := rig.Run(func(h *rig.Host) error {
		h.Cleanup(func() { cleaned += "1" })
		h.Cleanup(func() { cleaned += "2" })
		h.Fatalf("no server: %v", context.Canceled)
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), "no server: context canceled") {
		t.Errorf("err = %v", err)
	}
	if cleaned != "21" {
		t.Errorf("cleaned up %q, want 21", cleaned)
	}
}
