package main

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/internal/testenv"
)

func TestMain(m *testing.M) {
	redis.SetLogger(silent{})
	testenv.Main(m)
}

// TestExhibits tells every exhibit on real servers and, where it can be, on the stand-ins.
func TestExhibits(t *testing.T) {
	t.Parallel()
	for _, e := range Exhibits() {
		t.Run(e.Name, func(t *testing.T) {
			t.Parallel()
			t.Run("server", func(t *testing.T) {
				t.Parallel()
				tellBoth(t, realWorld(t, e.Needs), e)
			})
			if e.Needs == Redis || e.Needs == Nodes {
				t.Run("stand-in", func(t *testing.T) {
					t.Parallel()
					tellBoth(t, standInWorld(t, e.Needs), e)
				})
			}
		})
	}
}

// tellBoth tells an exhibit twice and fails the test unless it ends as it must.
func tellBoth(t *testing.T, w *World, e Exhibit) (first, second Seen) {
	t.Helper()
	first, second = tell(t, w, e, false), tell(t, w, e, true)
	if err := judge(e, first, second); err != nil {
		t.Errorf("%v\nfirst:\n%s\nsecond:\n%s", err, draw(t, first), draw(t, second))
	}
	if judge(e, first, first) == nil || judge(e, second, second) == nil {
		t.Error("the two tellings are not told apart")
	}
	if testing.Verbose() {
		t.Logf("%s\nfirst:\n%s\nsecond:\n%s", e.Title, draw(t, first), draw(t, second))
	}
	return first, second
}

func tell(t *testing.T, w *World, e Exhibit, fenced bool) Seen {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	seen, err := w.Play(ctx, e, fenced)
	if err != nil {
		t.Fatalf("%s, fenced %t: %v", e.Name, fenced, err)
	}
	return seen
}

// realWorld starts the servers that an exhibit needs.
func realWorld(t *testing.T, needs Needs) *World {
	t.Helper()
	switch needs {
	case Clocks:
		return standInWorld(t, needs)
	case Postgres:
		return &World{TTL: pace, Database: func(context.Context) (string, error) {
			return testenv.SharedPostgres(t).NewDatabase(t), nil
		}}
	default:
		w := &World{TTL: pace, Real: true}
		_, last := needs.locks()
		for range last + 1 {
			w.Nodes = append(w.Nodes, realNode{testenv.StartRedis(t, &testenv.RedisOptions{Args: []string{"--repl-diskless-sync-delay", "0"}})})
		}
		return w
	}
}

// pace is how long the locks last in tests.
const pace = 250 * time.Millisecond

// standInWorld has stand-ins in the place of servers.
func standInWorld(t *testing.T, needs Needs) *World {
	t.Helper()
	var nodes []Node
	_, last := needs.locks()
	for range last + 1 {
		n, err := startStandIn()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = n.Kill(context.Background()) })
		nodes = append(nodes, n)
	}
	return &World{TTL: pace, Nodes: nodes, Clocks: nodes}
}

// realNode is a server of a test. What fails ends the test.
type realNode struct{ r *testenv.Redis }

func (n realNode) Addr() string                  { return n.r.Addr() }
func (n realNode) Kill(context.Context) error    { n.r.Kill(); return nil }
func (n realNode) Hang(context.Context) error    { n.r.Pause(); return nil }
func (n realNode) Restart(context.Context) error { n.r.RestartEmpty(); return nil }
