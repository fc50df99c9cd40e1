package failovertest_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/locking/memlock"
	"github.com/fencegate/fencegate/locking/redislock"
	"github.com/fencegate/fencegate/storage/redisstore"
)

// TestRedisReplica promotes a replica that lacks the last writes.
func TestRedisReplica(t *testing.T) {
	t.Parallel()
	quick := &testenv.RedisOptions{Args: []string{"--repl-diskless-sync-delay", "0"}}
	primary, replica := testenv.StartRedis(t, quick), testenv.StartRedis(t, quick)
	link := testenv.NewAddress(t, primary.Addr()) // what the replica follows
	replica.Follow(link.Addr())
	address := testenv.NewAddress(t, primary.Addr())
	client := redis.NewClient(&redis.Options{
		Addr: address.Addr(), MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true, ReadTimeout: patience,
	})
	t.Cleanup(func() { _ = client.Close() })
	store, err := redisstore.New(t.Context(), client, nil)
	if err != nil {
		t.Fatal(err)
	}
	beside, err := redislock.New(client, nil)
	if err != nil {
		t.Fatal(err)
	}
	l := newLog(t)
	loads, holders := l.both([]bench{newBench(t, "memory", memlock.New(), store), newBench(t, "redis", beside, store)})
	awaitTurns(loads, "with the replica")
	// The replica has the holders' tokens as marks, and their first writes.
	conn := client.Conn()
	defer conn.Close()
	if err := conn.Set(t.Context(), "fence", "", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if n, err := conn.Wait(t.Context(), 1, 10*time.Second).Result(); n != 1 {
		t.Fatalf("WAIT = %d, %v", n, err)
	}

	link.MoveTo("")
	for _, h := range holders {
		h.goOn()
	}
	awaitTurns(loads, "without the replica")
	primary.Kill()
	replica.Promote()
	address.MoveTo(replica.Addr())
	for _, h := range holders {
		h.wantEnded()
	}
	awaitTurns(loads, "after the failover")
	for _, ld := range loads {
		if ld.judge() == 0 {
			t.Errorf("%s lock: nothing was lost: the replica did not lack what it was to lack", ld.b.name)
		}
	}
}
