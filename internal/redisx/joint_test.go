package redisx_test

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/redisx"
	"github.com/fencegate/fencegate/internal/testenv"
)

// pushed appends to a list; joined does so for several calls, and tells each how many they are.
var (
	pushed = redisx.NewScript("redis.call('RPUSH', KEYS[1], ARGV[1]) return {'alone', ARGV[1]}").Joined(joint)
	joint  = redisx.Joint{
		Script: redisx.NewScript(`local all = {}
for i = 1, #KEYS do
  if ARGV[i] == 'broken' then return {'one'} end
  redis.call('RPUSH', KEYS[i], ARGV[i])
  all[i] = #KEYS .. ' ' .. ARGV[i]
end
return all`),
		Encode: func(args []any, call redisx.Call) []any { return append(args, call.Args[0]) },
		Decode: func(answer string) redisx.Reply { return redisx.Reply{Values: strings.SplitN(answer, " ", 2)} },
	}
)

// gathered sends calls in one pipeline, in order, and returns their replies.
func gathered(t *testing.T, s *redisx.Sender, c *redis.Client, h *trips, script *redisx.Script, calls []redisx.Call) []redisx.Reply {
	t.Helper()
	h.n.Store(0)
	h.gate.Lock()
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() { _, _ = s.Run(t.Context(), incr, call("{same}before", "")) })
	}
	testenv.Eventually(t, 30*time.Second, "three are under way", func() bool { return h.n.Load() == 3 })
	replies := make([]redisx.Reply, len(calls))
	for i, call := range calls {
		wg.Go(func() { replies[i].Values, replies[i].Err = s.Run(t.Context(), script, call) })
		testenv.Eventually(t, 30*time.Second, "the call waits", func() bool { return s.Waiting() == i+1 })
	}
	if err := c.ConfigResetStat(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	h.gate.Unlock()
	wg.Wait()
	return replies
}

// TestJoint: calls that are in one pipeline are one script, in order, within its bounds, and each
// has its own answer, also where the server does not know the script.
func TestJoint(t *testing.T) {
	t.Parallel()
	s, c, h := sender(t, testenv.StartRedis(t, nil))
	wide := make([]any, 600)
	for i := range wide {
		wide[i] = "w"
	}
	for n, shape := range []struct {
		name  string
		calls []redisx.Call
		want  string // how many go together, of each call
	}{
		{"two", []redisx.Call{call("k", "0"), call("k", "1")}, "2 2"},
		{"one", []redisx.Call{call("k", "0")}, "alone"},
		{"many", repeated(70), "32*32 32*32 6*6"},
		{"large ones", []redisx.Call{
			call("k", "0"), call("k", strings.Repeat("x", 300<<10)), call("k", "2"), call("k", wide...),
			call("k", strings.Repeat("y", 200<<10)), call("k", strings.Repeat("z", 200<<10)), call("k", "6"),
		}, "3 alone 3 alone 3 2 2"},
	} {
		for round := range 2 {
			replies := gathered(t, s, c, h, pushed, shape.calls)
			var got []string
			for i, reply := range replies {
				if want := fmt.Sprint(shape.calls[i].Args[0]); reply.Err != nil || reply.Values[1] != want {
					t.Errorf("%s, call %d: got %.40q, %v", shape.name, i, reply.Values, reply.Err)
					continue
				}
				got = append(got, reply.Values[0])
			}
			if text := strings.Join(got, " "); text != spread(shape.want) {
				t.Errorf("%s, round %d.%d: went together: %s, want %s", shape.name, n, round, text, shape.want)
			}
			if n, err := c.LLen(t.Context(), "k").Result(); err != nil || n != int64(len(shape.calls)) {
				t.Errorf("%s: %d calls were carried out, %v", shape.name, n, err)
			}
			c.Del(t.Context(), "k")
		}
	}
}

func repeated(n int) []redisx.Call {
	calls := make([]redisx.Call, n)
	for i := range calls {
		calls[i] = call("k", strconv.Itoa(i))
	}
	return calls
}

// spread writes "2*3" as "2 2 2".
func spread(text string) string {
	var words []string
	for _, part := range strings.Fields(text) {
		word, times, ok := strings.Cut(part, "*")
		n, _ := strconv.Atoi(times)
		if !ok {
			n = 1
		}
		for range n {
			words = append(words, word)
		}
	}
	return strings.Join(words, " ")
}

// TestJointFails: what is said of all calls is said to each of them, and too few answers are none.
func TestJointFails(t *testing.T) {
	t.Parallel()
	s, c, h := sender(t, testenv.StartRedis(t, nil))
	for i, reply := range gathered(t, s, c, h, pushed, []redisx.Call{call("k", "0"), call("k", "broken")}) {
		if fencing.OutcomeOf(reply.Err) != fencing.Unknown {
			t.Errorf("call %d: got %q, %v, want unknown", i, reply.Values, reply.Err)
		}
	}
	c.Set(t.Context(), "no list", "x", 0)
	for i, reply := range gathered(t, s, c, h, pushed, []redisx.Call{call("no list", "0"), call("k", "1")}) {
		if fencing.OutcomeOf(reply.Err) != fencing.Failed || !strings.Contains(reply.Err.Error(), "WRONGTYPE") {
			t.Errorf("call %d: got %q, %v, want failed", i, reply.Values, reply.Err)
		}
	}
}

// TestJointApart: calls that a server refuses together, for their keys, are carried out each by
// itself, and so are those after them.
func TestJointApart(t *testing.T) {
	t.Parallel()
	s, c, h := sender(t, testenv.StartRedis(t, &testenv.RedisOptions{Args: []string{"--cluster-enabled", "yes"}}))
	if err := c.ClusterAddSlotsRange(t.Context(), 0, 16383).Err(); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, 20*time.Second, "the cluster is up", func() bool {
		return strings.Contains(c.ClusterInfo(t.Context()).Val(), "cluster_state:ok")
	})
	for round, keys := range [][2]string{{"{same}a", "{same}b"}, {"a", "b"}, {"{same}a", "{same}b"}} {
		for i, reply := range gathered(t, s, c, h, pushed, []redisx.Call{call(keys[0], "0"), call(keys[1], "1")}) {
			want := []string{"2", "alone", "alone"}[round]
			if reply.Err != nil || reply.Values[0] != want || reply.Values[1] != strconv.Itoa(i) {
				t.Errorf("round %d, call %d: got %q, %v, want %s", round, i, reply.Values, reply.Err, want)
			}
		}
	}
}
