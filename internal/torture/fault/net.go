package fault

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/fencegate/fencegate/internal/torture/history"
	"github.com/fencegate/fencegate/internal/torture/link"
	"github.com/fencegate/fencegate/internal/torture/rig"
)

// network returns the faults of the network.
func network() []Fault {
	return slices.Concat(delays(), losses(), partitions(), gatewayNetwork(), redlockNetwork(), realNetwork())
}

// wire is a fault that is trouble on links.
type wire struct {
	name, what, expect string
	loses              []history.Loss
	hold               time.Duration // default: wireHold
	// on returns the links that there are for it, by name; none where the fault makes no sense.
	on func(rig.Spec) []string
	// some chooses from them; nil: all.
	some func(rnd *rand.Rand, names []string) []string
	// requests and replies are what is done; ttl is that of the locks. nil: nothing.
	requests, replies func(ttl time.Duration) link.Trouble
}

// wireHold is beyond the leases of a run.
const wireHold = 1200 * time.Millisecond

func (w wire) fault() Fault {
	return Fault{
		Name: w.name, What: w.what, Expect: w.expect, Loses: w.most(),
		Fits:    func(s rig.Spec) bool { return len(w.on(s)) > 0 },
		Prepare: withLinks(w.on),
		Hold:    cmp.Or(w.hold, wireHold),
		Inject: func(_ context.Context, r *rig.Rig, rnd *rand.Rand, note *history.Fault) (healing, error) {
			links, err := w.links(r, rnd, note)
			if err != nil {
				return nil, err
			}
			return healLinks(links), w.trouble(links, r, rnd)
		},
	}
}

// losesOn says what is lost where it is on some links: row locks are, at once, with their connections.
func (w wire) losesOn(s rig.Spec, names []string, ttl time.Duration) []history.Loss {
	if w.resets(ttl) {
		return append(slices.Clip(w.loses), wayLoses(s, names)...)
	}
	return w.loses
}

// most is what is lost at most, whatever the rig is.
func (w wire) most() []history.Loss {
	if len(w.loses) > 0 {
		return w.loses
	}
	for _, store := range []string{"postgres", "redis"} {
		s := rig.Spec{Lock: "rowlock", Store: store}
		if loses := w.losesOn(s, w.on(s), time.Hour); len(loses) > 0 {
			return loses
		}
	}
	return nil
}

// resets reports whether it ends connections while leases are trusted that were granted or renewed on them.
// Where messages vanish this is done when it is healed, after half of the hold at the earliest.
func (w wire) resets(ttl time.Duration) bool {
	early := ttl > cmp.Or(w.hold, wireHold)/2
	for _, way := range []func(time.Duration) link.Trouble{w.requests, w.replies} {
		if way == nil {
			continue
		}
		if t := way(ttl); t.Cut || t.ResetShare > 0 || (t.Silent || t.HalfOpen) && early {
			return true
		}
	}
	return false
}

// wayLoses is cutLoses where connections on some links are cut.
func wayLoses(s rig.Spec, names []string) []history.Loss {
	if slices.ContainsFunc(lockLinks(s), func(name string) bool { return slices.Contains(names, name) }) {
		return cutLoses(s)
	}
	return nil
}

func faults(list ...wire) []Fault {
	all := make([]Fault, len(list))
	for i, w := range list {
		all[i] = w.fault()
	}
	return all
}

// links chooses, and says so in the note.
func (w wire) links(r *rig.Rig, rnd *rand.Rand, note *history.Fault) ([]*link.Link, error) {
	names := w.on(r.Spec)
	if w.some != nil {
		names = w.some(rnd, names)
	}
	note.Detail = strings.Join(names, ", ")
	note.Loses = w.losesOn(r.Spec, names, ttlOf(r))
	links := make([]*link.Link, len(names))
	for i, name := range names {
		if links[i] = r.Links[name]; links[i] == nil {
			return nil, fmt.Errorf("the rig has no link to %s: was the fault prepared?", name)
		}
	}
	return links, nil
}

func (w wire) trouble(links []*link.Link, r *rig.Rig, rnd *rand.Rand) error {
	ttl := ttlOf(r)
	for _, l := range links {
		for _, way := range []struct {
			d    link.Direction
			make func(time.Duration) link.Trouble
		}{{link.Requests, w.requests}, {link.Replies, w.replies}} {
			if way.make == nil {
				continue
			}
			if err := l.Trouble(way.d, way.make(ttl), rnd.Uint64()); err != nil {
				return err
			}
		}
	}
	return nil
}

func healLinks(links []*link.Link) healing {
	return func(context.Context) error {
		for _, l := range links {
			l.Heal()
		}
		return nil
	}
}

// ttlOf returns that of the locks.
func ttlOf(r *rig.Rig) time.Duration { return cmp.Or(r.Spec.Client.TTL, 400*time.Millisecond) }

// withLinks asks for the links that a fault is on.
func withLinks(on func(rig.Spec) []string) func(*rig.Spec) {
	return func(s *rig.Spec) {
		if strings.HasPrefix(on(*s)[0], "gateway") {
			s.GatewayLinks = true
		} else {
			s.Links = true
		}
	}
}

// always is the same trouble, whatever the leases are.
func always(t link.Trouble) func(time.Duration) link.Trouble {
	return func(time.Duration) link.Trouble { return t }
}

// lockLinks returns the names of the links to the lock.
func lockLinks(s rig.Spec) []string {
	s.Nodes = cmp.Or(s.Nodes, 5) // as the rig does it
	return (&rig.Rig{Spec: s}).LockNames()
}

// storeLinks returns the name of the link to the store.
func storeLinks(s rig.Spec) []string {
	if name := (&rig.Rig{Spec: s}).StoreName(); name != "" {
		return []string{name}
	}
	return nil
}

// serverLinks returns the names of the links to lock and store.
func serverLinks(s rig.Spec) []string {
	return slices.Compact(slices.Concat(lockLinks(s), storeLinks(s)))
}

// lockApart returns the names of the links to the lock where the store has another one.
func lockApart(s rig.Spec) []string {
	if lock := lockLinks(s); !slices.Equal(lock, storeLinks(s)) {
		return lock
	}
	return nil
}

// storeApart returns the name of the link to the store where the lock has others.
func storeApart(s rig.Spec) []string {
	if lock := lockLinks(s); len(lock) > 0 && !slices.Equal(lock, storeLinks(s)) {
		return storeLinks(s)
	}
	return nil
}

// redisLinks returns the names of the links to a single Redis.
func redisLinks(s rig.Spec) []string {
	var names []string
	if lockInRedis(s) {
		names = lockLinks(s)
	}
	if storeInRedis(s) {
		names = append(names, storeLinks(s)...)
	}
	return slices.Compact(names)
}

// gatewayLinks returns the names of the links to the gateways.
func gatewayLinks(s rig.Spec) []string {
	names := make([]string, s.Gateways)
	for i := range names {
		names[i] = fmt.Sprintf("gateway-%d", i)
	}
	return names
}

// nodeLinks returns the names of the links to the nodes of redlock.
func nodeLinks(s rig.Spec) []string {
	if withRedlock(s) {
		return lockLinks(s)
	}
	return nil
}

// one chooses one at random.
func one(rnd *rand.Rand, names []string) []string {
	i := rnd.IntN(len(names))
	return names[i : i+1]
}

// minorityOf chooses as many as redlock can do without; majorityOf one more.
func minorityOf(rnd *rand.Rand, names []string) []string { return choose(rnd, names, (len(names)-1)/2) }

func majorityOf(rnd *rand.Rand, names []string) []string { return choose(rnd, names, len(names)/2+1) }

func choose(rnd *rand.Rand, names []string, n int) []string {
	chosen := make([]string, 0, n)
	for _, i := range pick(rnd, n, len(names)) {
		chosen = append(chosen, names[i])
	}
	slices.Sort(chosen)
	return chosen
}
