package redlock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/redisx"
	"github.com/fencegate/fencegate/locking"
)

const (
	// maxRounds is how often a call tries again after a split vote.
	maxRounds = 8
	// tombstone is how long an attempt that was given up is refused.
	tombstone = time.Minute
	// longestPause is the most of the random pause after a split vote.
	longestPause = 200 * time.Millisecond
)

// again is the answer of a round after which another one may do better.
type again struct{ why error } // nil after a split vote

func (again) Error() string { return "another round" }

// TryAcquire implements locking.Backend.
func (b *Backend) TryAcquire(ctx context.Context, r locking.Request) (locking.Hold, error) {
	if err := r.Validate(); err != nil {
		return locking.Hold{}, err
	}
	if err := b.validateTTL(r.TTL); err != nil {
		return locking.Hold{}, err
	}
	start := time.Now()
	for round := 0; ; round++ {
		if err := ctx.Err(); err != nil {
			return locking.Hold{}, fencing.AsFailed(err)
		}
		h, err := b.attempt(ctx, &r)
		more, ok := errors.AsType[again](err)
		if !ok {
			return h, err
		}
		// Nodes that do not answer make rounds long, and it is the issuer who waits.
		if round+1 == maxRounds || time.Since(start) > 4*b.o.NodeTimeout {
			if more.why != nil {
				return h, fencing.AsFailed(more.why)
			}
			return h, &locking.HeldError{Resource: r.Resource}
		}
		select {
		case <-ctx.Done():
		case <-time.After(b.backOff(round)):
		}
	}
}

// backOff is the random pause after so many split votes in a row. It begins with the time
// that an attempt takes: whoever draws the shortest pause is through before the next.
func (b *Backend) backOff(round int) time.Duration {
	return rand.N(min(2*b.pace()<<min(round, 10), longestPause)) + 1
}

// pace is about how long a grant takes while all is well.
func (b *Backend) pace() time.Duration {
	return min(max(time.Duration(b.took.Load()), time.Millisecond), b.o.NodeTimeout)
}

// window is how long what the first phase granted waits for the confirm.
func (b *Backend) window(ttl time.Duration) time.Duration {
	return min(ttl, locking.PushTTL+2*b.o.NodeTimeout)
}

// tally sorts the answers of the first phase.
type tally struct {
	granted   map[int]string // node -> its counter
	unclear   []int          // nodes that may have granted
	mine      map[int64][]time.Duration
	held      map[int64][]time.Duration
	label     map[int64]string
	lost      int
	exhausted bool
	down      int
	err       error
}

func count(replies []redisx.Reply) *tally {
	t := &tally{
		granted: map[int]string{},
		mine:    map[int64][]time.Duration{}, held: map[int64][]time.Duration{}, label: map[int64]string{},
	}
	t.down, t.err = errorsOf(replies)
	for i, r := range replies {
		if r.Err != nil {
			if fencing.OutcomeOf(r.Err) != fencing.Failed {
				t.unclear = append(t.unclear, i)
			}
			continue
		}
		switch v := r.Values; {
		case v[0] == "granted" && len(v) == 2:
			t.granted[i] = v[1]
		case v[0] == "mine" && len(v) == 3:
			t.mine[parse(v[1])] = append(t.mine[parse(v[1])], parseMillis(v[2]))
		case v[0] == "held" && len(v) == 4:
			t.held[parse(v[1])] = append(t.held[parse(v[1])], parseMillis(v[3]))
			t.label[parse(v[1])] = v[2]
		case v[0] == "lost":
			t.lost++
		case v[0] == "exhausted":
			t.exhausted = true
		}
	}
	return t
}

// attempt is one run of the protocol. It raises r.Floor where the next one must exceed more.
func (b *Backend) attempt(ctx context.Context, r *locking.Request) (locking.Hold, error) {
	sent := time.Now()
	id := fencing.NewGrant() // new for each, so that nothing of one is taken for another
	t := count(b.ask(ctx, grant, b.attemptCall(r.Resource, id, r.Grant, id, r.Label, millis(b.window(r.TTL)), decimal(r.Floor))))

	for number, left := range t.mine {
		if len(left) >= b.quorum {
			b.takeBack(ctx, r, id, t)
			return b.hold(r, number, false, left), nil
		}
	}
	if len(t.granted) < b.quorum {
		b.takeBack(ctx, r, id, t)
		return locking.Hold{}, b.refusal(r, t)
	}

	number := r.Floor + 1
	for _, ctr := range t.granted {
		number = max(number, parse(ctr))
	}
	replies := b.askEach(ctx, confirm, func(i int) []redisx.Call {
		ctr, ok := t.granted[i]
		if !ok {
			return nil
		}
		return []redisx.Call{b.call(r.Resource, id, ctr, decimal(number), millis(r.TTL))}
	})
	var left []time.Duration
	unconfirmed := *t
	unconfirmed.granted = map[int]string{}
	for i, ctr := range t.granted {
		if reply := replies[i][0]; reply.Err == nil && reply.Values[0] == "confirmed" && len(reply.Values) == 2 {
			left = append(left, parseMillis(reply.Values[1]))
		} else {
			unconfirmed.granted[i] = ctr
		}
	}
	h := b.hold(r, number, true, left)
	if took := time.Since(sent); len(left) >= b.quorum && took < h.Remaining {
		b.took.Store(int64(took+3*b.pace()) / 4)
		b.takeBack(ctx, r, id, &unconfirmed)
		return h, nil
	}
	var errs error
	for _, reply := range replies {
		if len(reply) > 0 {
			errs = errors.Join(errs, reply[0].Err)
		}
	}
	// A hold could only be where a majority was granted and is not known to have been
	// taken back.
	if open := b.takeBack(ctx, r, id, t); open >= b.quorum {
		return locking.Hold{}, fencing.AsUnknown(fmt.Errorf("redlock: a grant was confirmed by %d of %d nodes and could not be taken back: %w",
			len(left), len(b.nodes), plain(errors.Join(errors.New("no answer"), errs))))
	}
	if len(left) >= b.quorum {
		return locking.Hold{}, fencing.AsFailed(errors.New("redlock: the grant took longer than its TTL"))
	}
	if errs != nil {
		errs = fmt.Errorf("redlock: a grant was confirmed by %d of %d nodes, and taken back: %w", len(left), len(b.nodes), plain(errs))
	}
	return locking.Hold{}, again{errs}
}

// hold is the hold of r's grant on the nodes with these times left. It lasts while a
// majority has it.
func (b *Backend) hold(r *locking.Request, number int64, drawn bool, left []time.Duration) locking.Hold {
	return locking.Hold{
		Token:     fencing.Token{Resource: r.Resource, Number: number, Grant: r.Grant},
		Drawn:     drawn,
		Remaining: b.majorityLeft(left) - b.drift(r.TTL),
	}
}

// majorityLeft is how long a majority lasts of which each node lasts for one of left.
func (b *Backend) majorityLeft(left []time.Duration) time.Duration {
	if len(left) < b.quorum {
		return 0
	}
	sorted := slices.Sorted(slices.Values(left))
	return sorted[len(sorted)-b.quorum]
}

// takeBack ends the attempt wherever it was granted, also after ctx's end, and owes it to
// the nodes that did not answer. It returns how many of those that granted, and so may have
// confirmed, may still have it.
func (b *Backend) takeBack(ctx context.Context, r *locking.Request, id string, t *tally) (open int) {
	until := time.Now().Add(b.window(r.TTL) + r.TTL)
	for _, i := range t.unclear {
		b.nodes[i].owe(debt{abort, b.attemptCall(r.Resource, id, id, millis(tombstone)), until})
	}
	if len(t.granted) == 0 {
		return 0
	}
	call := b.attemptCall(r.Resource, id, id, millis(tombstone))
	replies := b.askEach(context.WithoutCancel(ctx), abort, func(i int) []redisx.Call {
		if _, ok := t.granted[i]; !ok {
			return nil
		}
		return []redisx.Call{call}
	})
	for i := range t.granted {
		if replies[i][0].Err != nil {
			open++
			b.nodes[i].owe(debt{abort, call, until})
		}
	}
	return open
}

// refusal is the answer where no majority granted.
func (b *Backend) refusal(r *locking.Request, t *tally) error {
	mine, highest := 0, int64(0)
	for number, left := range t.mine {
		mine += len(left)
		highest = max(highest, number)
	}
	switch {
	case t.exhausted:
		return locking.ErrExhausted
	case t.lost >= b.quorum:
		return locking.ErrLost
	case len(b.nodes)-t.down < b.quorum:
		return fencing.AsFailed(b.noMajority(t.down, t.err))
	case mine > 0 && mine+len(t.granted) >= b.quorum:
		// The grant is there, and no majority agrees on its number: the next round numbers
		// it anew.
		r.Floor = max(r.Floor, highest)
		return again{errors.New("redlock: no majority agrees on the number of this grant")}
	case mine > 0 && mine+t.down >= b.quorum, t.lost > 0 && t.lost+t.down >= b.quorum:
		return fencing.AsFailed(fmt.Errorf("redlock: whether this grant is held or has ended cannot be told: %w", plain(t.err)))
	}
	for number, left := range t.held {
		if number > 0 && len(left) >= b.quorum {
			return &locking.HeldError{Resource: r.Resource, Number: number, Label: t.label[number], Remaining: b.majorityLeft(left)}
		}
		if number > 0 && len(left)+t.down >= b.quorum {
			// A majority may have it; where it has not, this ends with the longest of them.
			return &locking.HeldError{Resource: r.Resource, Number: number, Label: t.label[number], Remaining: slices.Max(left)}
		}
	}
	return again{}
}
