package fault

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/fencegate/fencegate/internal/torture/history"
	"github.com/fencegate/fencegate/internal/torture/rig"
)

const (
	// settled is how long clients get to come back on the detour before anything is dropped there.
	settled = 300 * time.Millisecond
	// resent is about when TCP sends again, for the last time, what a fault of wireHold has kept from arriving.
	resent = 1500 * time.Millisecond
)

// realNetwork returns the faults in which the kernel drops packets, by nftables: unlike those of links, TCP sends again what was
// lost, and it arrives late when the fault is healed. The way to a server is led through a network namespace for it.
func realNetwork() []Fault {
	return []Fault{
		dropped("net-nft-one-way", "the kernel drops the packets to a server, or those from it, and lets the others pass",
			func(rnd *rand.Rand) string { return one(rnd, []string{"dport", "sport"})[0] }),
		dropped("net-nft-drop", "the kernel drops the packets to a server and from it: all connections are half-open",
			func(*rand.Rand) string { return "" }),
	}
}

// dropped is a fault in which packets are dropped, those with the server's port as side ("dport" or "sport"), or all.
func dropped(name, what string, side func(*rand.Rand) string) Fault {
	return Fault{
		Name: name, What: what, Expect: lateRefused,
		Loses:   []history.Loss{history.LosesLocks}, // row locks: on the way to the detour and back connections are cut
		Fits:    func(s rig.Spec) bool { return len(serverLinks(s)) > 0 },
		Prepare: withLinks(serverLinks),
		Hold:    wireHold,
		Inject: func(ctx context.Context, r *rig.Rig, rnd *rand.Rand, note *history.Fault) (healing, error) {
			name := one(rnd, serverLinks(r.Spec))[0]
			l := r.Links[name]
			if l == nil {
				return nil, fmt.Errorf("the rig has no link to %s: was the fault prepared?", name)
			}
			note.Loses = wayLoses(r.Spec, []string{name})
			d, err := newDetour(ctx, r.Server(name))
			if err != nil {
				return nil, err
			}
			dropping := false
			heal := func(ctx context.Context) (err error) {
				if dropping {
					err = d.pass(ctx)
					wait(ctx, resent)
				}
				l.MoveTo(r.Server(name))
				d.close()
				return err
			}
			l.MoveTo(d.addr())
			if err := until(ctx, 10*time.Second, "wait for a client on the detour", func() (bool, error) { return d.used(), nil }); err != nil {
				return heal, err
			}
			wait(ctx, settled)
			which := side(rnd)
			note.Detail = map[string]string{"dport": "to ", "sport": "from ", "": "to and from "}[which] + name
			err = d.drop(ctx, which)
			dropping = err == nil
			return heal, err
		},
	}
}
