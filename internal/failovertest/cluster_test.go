package failovertest_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/storage"
	"github.com/fencegate/fencegate/storage/redisstore"
	"github.com/fencegate/fencegate/storage/storagetest"
)

// TestRedisCluster is redisstore on six nodes, three of them masters.
func TestRedisCluster(t *testing.T) {
	t.Parallel()
	cluster := testenv.StartRedisCluster(t, 3, 3)
	client := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: cluster.Addrs(), MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true, ReadTimeout: patience,
	})
	t.Cleanup(func() { _ = client.Close() })
	b, err := redisstore.New(t.Context(), client, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("suite", func(t *testing.T) { //nolint:paralleltest // the scenarios are; what follows comes after them
		storagetest.Run(t, storagetest.Harness{New: func(tb testing.TB, mode fencing.Mode) storagetest.Subject {
			inside := newSlotted(tb, b, int(mode)*slots/2) // strict on the first master, classic on another
			s, err := storage.New(inside, &storage.Options{Mode: mode})
			if err != nil {
				tb.Fatal(err)
			}
			return storagetest.Subject{Store: s, Fence: s, Backend: inside}
		}})
	})
	s, err := storage.New(b, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := &clustered{backend: b, store: s}
	t.Run("slots", c.slots)                //nolint:paralleltest // one after the other
	t.Run("evict all", c.evicted)          //nolint:paralleltest // one after the other
	t.Run("failover", func(t *testing.T) { //nolint:paralleltest // one after the other
		c.failover(t, cluster)
	})
}

// clustered is what the subtests share.
type clustered struct {
	backend *redisstore.Backend
	store   *storage.Store
}

// raised returns a token on each of the masters, with a record.
func (c *clustered) raised(t *testing.T) (tokens []fencing.Token) {
	t.Helper()
	for i := range 3 {
		tok := fencing.Token{
			Resource: inSlot(testenv.Unique(t, "on-"+strconv.Itoa(i)), i*slots/3+7), Number: 33, Grant: fencing.NewGrant(),
		}
		if err := c.store.Raise(t.Context(), tok); err != nil {
			t.Fatal(err)
		}
		if _, err := c.store.Put(t.Context(), tok, record, []byte("1")); err != nil {
			t.Fatal(err)
		}
		tokens = append(tokens, tok)
	}
	return tokens
}

// slots: a commit over several slots is refused in words, and changes nothing.
func (c *clustered) slots(t *testing.T) {
	tokens := c.raised(t)
	beside := tokens[0]
	beside.Resource = inSlot(testenv.Unique(t, "beside"), slotOf(tokens[0].Resource))
	if err := c.store.Raise(t.Context(), beside); err != nil {
		t.Fatal(err)
	}
	commit := func(list ...fencing.Token) error {
		var ops []storage.Op
		for _, tok := range list {
			ops = append(ops, storage.Put(tok.Resource, record, []byte("2")))
		}
		_, err := c.store.Commit(t.Context(), storage.Commit{Tokens: list, Ops: ops})
		return err
	}
	if err := commit(tokens...); !errors.Is(err, fencing.ErrInvalid) || !strings.Contains(err.Error(), "hash slot") {
		t.Errorf("three slots: got %v, want an *InvalidError that says why", err)
	}
	for _, tok := range tokens {
		if rec, err := c.store.Get(t.Context(), tok.Resource, record); err != nil || rec.Version != 1 {
			t.Errorf("%s: got version %d, %v, want nothing written", tok.Resource, rec.Version, err)
		}
	}
	if err := commit(tokens[0], beside); err != nil {
		t.Errorf("two resources of one slot: %v", err)
	}
}

// evicted: EvictAll goes to every master.
func (c *clustered) evicted(t *testing.T) {
	tokens := c.raised(t)
	if n, err := c.backend.EvictAll(t.Context(), nil); n < len(tokens) || err != nil {
		t.Errorf("got %d, %v, want at least %d", n, err, len(tokens))
	}
	for _, tok := range tokens {
		_, err := c.store.Put(t.Context(), tok, record, nil)
		if stale, ok := errors.AsType[*fencing.StaleError](err); !ok || stale.Reason != fencing.Retired {
			t.Errorf("%s: got %v, want it refused as retired", tok.Resource, err)
		}
	}
	if n, err := c.backend.EvictAll(t.Context(), nil); n != 0 || err != nil {
		t.Errorf("again: got %d, %v, want none", n, err)
	}
}

// failover: a master dies and its replica takes over. The tokens in its slots have ended, those
// of the other masters go on.
func (c *clustered) failover(t *testing.T, cluster *testenv.RedisCluster) {
	tokens := c.raised(t)
	cluster.AwaitReplicas(t)
	cluster.Masters[0].Kill()
	cluster.TakeOver(0)
	for i, tok := range tokens {
		err := newLog(t).insist(func() error {
			_, err := c.store.Put(t.Context(), tok, record, []byte("2"))
			return err
		})
		stale, ok := errors.AsType[*fencing.StaleError](err)
		switch {
		case i > 0 && err != nil:
			t.Errorf("%s, on a master that lives on: %v", tok.Resource, err)
		case i == 0 && (!ok || stale.Reason != fencing.Retired):
			t.Errorf("%s, on the master that died: got %v, want it refused as retired", tok.Resource, err)
		}
	}
	next := fencing.Token{Resource: tokens[0].Resource, Number: 34, Grant: fencing.NewGrant()}
	if err := newLog(t).insist(func() error { return c.store.Raise(t.Context(), next) }); err != nil {
		t.Fatal(err)
	}
	if rec, err := c.store.GetFenced(t.Context(), next, record); err != nil || string(rec.Value) != "1" || rec.Version != 1 {
		t.Errorf("got %q in version %d, %v, want what was acknowledged before", rec.Value, rec.Version, err)
	}
}
