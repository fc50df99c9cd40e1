package fault

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/fencegate/fencegate/internal/torture/history"
	"github.com/fencegate/fencegate/internal/torture/rig"
)

// losesInside is what gateways that are killed forget: what they keep in their memory.
var losesInside = []history.Loss{history.LosesLocks, history.LosesData}

func gatewayFaults() []Fault {
	return []Fault{
		{
			Name:   "gateway-kill",
			What:   "a gateway is killed (SIGKILL), and started again on its address",
			Expect: "calls that were under way are unknown or failed; the locks that were held stay held, and clients go on with the gateway when it is there",
			Loses:  losesInside, Own: true, Fits: withGateways, Hold: 400 * time.Millisecond,
			Inject: func(_ context.Context, r *rig.Rig, rnd *rand.Rand, note *history.Fault) (healing, error) {
				return killGateways(r, note, rnd.IntN(len(r.Gateways)))
			},
		},
		{
			Name:   "gateway-pause",
			What:   "a gateway is stopped (SIGSTOP) past the leases of its clients",
			Expect: "calls that it had are answered late: what they write is refused if a newer token was raised by then",
			Own:    true, Fits: withGateways, Hold: past,
			Inject: func(_ context.Context, r *rig.Rig, rnd *rand.Rand, note *history.Fault) (healing, error) {
				i := rnd.IntN(len(r.Gateways))
				note.Detail = fmt.Sprintf("gateway %d of %d", i, len(r.Gateways))
				g := r.Gateways[i]
				return func(context.Context) error { return g.Resume() }, g.Pause()
			},
		},
		{
			Name:   "gateway-restart",
			What:   "the gateways are restarted one after another, gracefully (SIGTERM)",
			Expect: "what was under way when a gateway ended is there or not, as a whole, and once; clients go on with the next",
			Loses:  losesInside, Own: true, Fits: withGateways, Hold: 200 * time.Millisecond,
			Inject: rollGateways,
		},
		{
			Name: "gateway-old-and-new",
			What: "one of two gateways is an earlier build of the program; each in turn leaves all the work to the other",
			Expect: "both builds grant, raise, write and refuse by the same rule: nothing is lost and nothing stale " +
				"accepted where they take over from each other",
			Own: true, Fits: withTwoGateways, Hold: 200 * time.Millisecond,
			Inject: func(ctx context.Context, r *rig.Rig, rnd *rand.Rand, note *history.Fault) (healing, error) {
				if r.Spec.OldServer == "" {
					return nil, Void("no program of an earlier version was given")
				}
				return rollGateways(ctx, r, rnd, note)
			},
		},
		{
			Name:   "gateway-drop-all",
			What:   "all gateways are killed at once, and started again a little later",
			Expect: "nobody is served meanwhile; afterwards everything is as before, and what was under way is there or not, as a whole",
			Loses:  losesInside, Own: true, Fits: withGateways, Hold: 600 * time.Millisecond,
			Inject: func(_ context.Context, r *rig.Rig, _ *rand.Rand, note *history.Fault) (healing, error) {
				all := make([]int, len(r.Gateways))
				for i := range all {
					all[i] = i
				}
				return killGateways(r, note, all...)
			},
		},
	}
}

// insideLoses says what is lost with the memory of a gateway.
func insideLoses(s rig.Spec) (list []history.Loss) {
	if s.Lock == "memory" {
		list = append(list, history.LosesLocks)
	}
	if s.Store == "memory" {
		list = append(list, history.LosesData)
	}
	return list
}

func killGateways(r *rig.Rig, note *history.Fault, which ...int) (healing, error) {
	note.Loses = insideLoses(r.Spec)
	note.Detail = fmt.Sprintf("gateways %v of %d", which, len(r.Gateways))
	heal := func(ctx context.Context) error {
		var errs []error
		for _, i := range which {
			errs = append(errs, r.Gateways[i].Start(ctx))
		}
		return errors.Join(errs...)
	}
	for _, i := range which {
		if err := r.Gateways[i].Kill(); err != nil {
			return heal, fmt.Errorf("kill gateway %d: %w", i, err)
		}
	}
	return heal, nil
}

// rollGateways restarts all, one after another. While one is away for a moment the others have all the work.
func rollGateways(ctx context.Context, r *rig.Rig, rnd *rand.Rand, note *history.Fault) (healing, error) {
	note.Loses = insideLoses(r.Spec)
	began := time.Now()
	down := -1
	heal := func(ctx context.Context) error {
		if down < 0 {
			return nil
		}
		return r.Gateways[down].Start(ctx)
	}
	for _, i := range rnd.Perm(len(r.Gateways)) {
		down = i
		if err := r.Gateways[i].Stop(ctx); err != nil {
			return heal, fmt.Errorf("stop gateway %d: %w", i, err)
		}
		wait(ctx, about(rnd, 300*time.Millisecond))
		if err := r.Gateways[i].Start(ctx); err != nil {
			return heal, fmt.Errorf("start gateway %d: %w", i, err)
		}
		down = -1
	}
	note.Detail = fmt.Sprintf("%d gateways in %v", len(r.Gateways), time.Since(began).Round(10*time.Millisecond))
	return heal, nil
}
