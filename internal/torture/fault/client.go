package fault

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fencegate/fencegate/internal/torture/history"
	"github.com/fencegate/fencegate/internal/torture/rig"
)

// past is longer than the leases of a run, twice over: their holders have long been succeeded.
const past = 1100 * time.Millisecond

func clientFaults() []Fault {
	return []Fault{
		{
			Name: "client-pause",
			What: "half of the client processes, those that hold most locks, are stopped (SIGSTOP) past their leases",
			Expect: "their locks are granted to others; whatever the stopped ones send when they go on is refused " +
				"if a newer token was raised",
			Fits: anywhere, Hold: past,
			Inject: func(_ context.Context, r *rig.Rig, _ *rand.Rand, note *history.Fault) (healing, error) {
				places, err := byHolding(r)
				if err != nil {
					return nil, err
				}
				return pause(r, note, places[:(len(places)+1)/2])
			},
		},
		{
			Name:   "client-pause-one",
			What:   "the client process that holds most locks is stopped (SIGSTOP) past its leases",
			Expect: "as with client-pause: its locks are granted to others, its late writes are refused",
			Fits:   anywhere, Hold: past,
			Inject: func(_ context.Context, r *rig.Rig, _ *rand.Rand, note *history.Fault) (healing, error) {
				places, err := byHolding(r)
				if err != nil {
					return nil, err
				}
				return pause(r, note, places[:1])
			},
		},
		inTransaction(),
		{
			Name:   "client-kill",
			What:   "a client process that holds locks is killed (SIGKILL), and another one started a little later",
			Expect: "its locks are granted to others when their leases have run out; what it was about to write is there or not, as a whole",
			Fits:   anywhere, Hold: 500 * time.Millisecond,
			Inject: killClient,
		},
		{
			Name:   "client-freeze-thaw",
			What:   "client processes are stopped again and again for 30 to 600 ms",
			Expect: "leases are lost in the middle of the work, which is refused then; nothing else happens",
			Fits:   anywhere, Hold: 1500 * time.Millisecond,
			Inject: freezeThaw,
		},
	}
}

// byHolding returns the places of the client processes, at least one, those with the most leases first.
func byHolding(r *rig.Rig) ([]int, error) {
	if len(r.Clients) == 0 {
		return nil, errors.New("the rig has no client processes: want at least 1")
	}
	places := make([]int, 0, len(r.Clients))
	holding := make([]int, len(r.Clients))
	for i, p := range r.Clients {
		holding[i] = p.Holding()
		places = append(places, i)
	}
	slices.SortStableFunc(places, func(a, b int) int { return cmp.Compare(holding[b], holding[a]) })
	return places, nil
}

// pause stops processes until it is healed.
func pause(r *rig.Rig, note *history.Fault, places []int) (healing, error) {
	held := 0
	heal := func(context.Context) error {
		var errs []error
		for _, i := range places {
			errs = append(errs, r.Clients[i].Resume())
		}
		return errors.Join(errs...)
	}
	for _, i := range places {
		p := r.Clients[i]
		held += p.Holding()
		note.Paused = append(note.Paused, p.ID())
		if err := p.Pause(); err != nil {
			return heal, fmt.Errorf("pause client %d: %w", p.ID(), err)
		}
	}
	note.Detail = fmt.Sprintf("%d of %d processes, which held about %d locks", len(places), len(r.Clients), held)
	return heal, nil
}

func killClient(_ context.Context, r *rig.Rig, rnd *rand.Rand, note *history.Fault) (healing, error) {
	places, err := byHolding(r)
	if err != nil {
		return nil, err
	}
	i := places[rnd.IntN(max(1, len(places)/2))]
	p := r.Clients[i]
	note.Detail = fmt.Sprintf("process %d, which held about %d locks", p.ID(), p.Holding())
	if err := p.Err(); err != nil {
		return nil, err // it broke before it was killed, and that is not to be hidden
	}
	note.Killed = []int{p.ID()}
	if err := p.Kill(); err != nil {
		return nil, fmt.Errorf("kill client %d: %w", p.ID(), err)
	}
	return func(ctx context.Context) error { return r.Respawn(ctx, i) }, nil
}

func freezeThaw(ctx context.Context, r *rig.Rig, rnd *rand.Rand, note *history.Fault) (healing, error) {
	if _, err := byHolding(r); err != nil {
		return nil, err
	}
	stop := repeat(ctx, rnd, 30*time.Millisecond, func(ctx context.Context, rnd *rand.Rand) (bool, error) {
		p := r.Clients[rnd.IntN(len(r.Clients))]
		if err := p.Pause(); err != nil {
			return false, errors.Join(err, p.Resume())
		}
		d := 30 * time.Millisecond
		if rnd.IntN(5) == 0 { // past its leases, now and then
			d = 400 * time.Millisecond
		}
		wait(ctx, about(rnd, d))
		return true, p.Resume()
	})
	return func(context.Context) error {
		n, err := stop()
		note.Detail = fmt.Sprintf("%d stops", n)
		return cmp.Or(err, atLeastOne(ctx, n, "no process was stopped"))
	}, nil
}
