package link

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// Trouble is what is done to what passes. The zero value is none. Every field is for itself, and they combine.
type Trouble struct {
	Latency, Jitter time.Duration // a message comes later by Latency, give or take up to Jitter; never before those before it
	Bandwidth       int64         // bytes a second; 0: unlimited
	Silent          bool          // nothing passes, and nobody is told: a partition in this direction
	HalfOpen        bool          // the connections that are open pass nothing more, and are never closed; new ones work
	ResetShare      float64       // this share of the messages is lost and its connection reset, 0..1: with Replies the request was carried out and its answer is lost
	HoldShare       float64       // this share of the messages is held, and delivered after half to all of HoldFor; others of the connection wait behind it
	HoldFor         time.Duration
	RepeatShare     float64 // with Requests: this share of them is delivered once more, on a connection of its own, after up to HoldFor: a late duplicate
	// Repeat chooses the requests of which RepeatShare is taken, whole commands or HTTP requests; nil: all. Several
	// goroutines call it.
	Repeat func(request []byte) bool
	Cut    bool // connections are reset, open ones and new ones; in both directions
}

func (t Trouble) check(d Direction) error {
	for _, share := range []struct {
		name  string
		value float64
	}{{"ResetShare", t.ResetShare}, {"HoldShare", t.HoldShare}, {"RepeatShare", t.RepeatShare}} {
		if !(share.value >= 0 && share.value <= 1) {
			return fmt.Errorf("%s %v is not in 0..1", share.name, share.value)
		}
	}
	switch {
	case t.Latency < 0 || t.Jitter < 0 || t.HoldFor < 0:
		return errors.New("a negative Latency, Jitter or HoldFor: want 0 or more")
	case t.Bandwidth < 0:
		return errors.New("a negative Bandwidth: want 0 or more, in bytes a second")
	case t.HoldShare > 0 && t.HoldFor == 0:
		return errors.New("a HoldShare without a HoldFor: want more than 0")
	case t.RepeatShare > 0 && d != Requests:
		return errors.New("a RepeatShare of replies: only requests are repeated")
	}
	return nil
}

// due draws when a message is delivered that came at a time.
func (s *state) due(at time.Time, rnd *rand.Rand) time.Time {
	if s.Latency+s.Jitter > 0 {
		at = at.Add(s.Latency + time.Duration((2*rnd.Float64()-1)*float64(s.Jitter)))
	}
	if s.HoldShare > 0 && rnd.Float64() < s.HoldShare {
		at = at.Add(s.HoldFor/2 + time.Duration(rnd.Float64()*float64(s.HoldFor/2)))
	}
	return at
}
