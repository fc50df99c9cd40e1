package fault_test

import (
	"strings"
	"testing"
	"time"

	"github.com/fencegate/fencegate/internal/torture/history"
	"github.com/fencegate/fencegate/internal/torture/rig"
)

// A lock with a time to live runs out early, or lasts for hours; only on the server that was chosen.
func TestClock(t *testing.T) {
	t.Parallel()
	for _, s := range []rig.Spec{{Lock: "redis", Store: "redis"}, {Lock: "redlock", Store: "redis", Nodes: 3}} {
		r := build(t, s, "clock-forward", "clock-back") // one after another: it is the same table
		for name, by := range map[string]time.Duration{"clock-forward": time.Hour, "clock-back": -2 * time.Hour} {
			ctx := t.Context()
			const ttl = time.Minute
			for _, server := range append(r.LockRedis, r.StoreRedis) {
				if err := dialRedis(t, server.Addr(), slack).Set(ctx, "lock", "a", ttl).Err(); err != nil {
					t.Fatal(err)
				}
			}
			off := func() (n int, lasts time.Duration) {
				for _, server := range r.LockRedis {
					c := dialRedis(t, server.Addr(), slack)
					if now := c.Time(ctx).Val(); time.Until(now).Abs() > time.Minute {
						n++
						lasts = c.PTTL(ctx, "lock").Val()
						if d := time.Until(now) - by; d.Abs() > time.Minute {
							t.Errorf("%s: the clock is off by %v", name, time.Until(now))
						}
					}
				}
				return n, lasts
			}
			note := inject(t, r, name, func() {
				n, lasts := off()
				if n > 1 {
					t.Errorf("%s: the clocks of %d servers jumped, want one", name, n)
				}
				if n == 1 && by > 0 && lasts > 0 {
					t.Errorf("%s: the lock still lasts %v", name, lasts)
				}
				if n == 1 && by < 0 && lasts < time.Hour {
					t.Errorf("%s: the lock lasts %v", name, lasts)
				}
			})
			if note.Void != "" {
				continue
			}
			if !strings.Contains(note.Detail, by.String()) {
				t.Errorf("%s says %q, want %v", name, note.Detail, by)
			}
			if lock := !strings.HasPrefix(note.Detail, "store"); lock != (len(note.Loses) == 1 && note.Loses[0] == history.LosesLocks) {
				t.Errorf("%s at %s loses %v", name, note.Detail, note.Loses)
			}
			if n, _ := off(); n != 0 {
				t.Errorf("after %s clocks are off", name)
			}
		}
	}
}
