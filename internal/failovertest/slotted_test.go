package failovertest_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/storage"
)

// slots is how many hash slots a Redis Cluster has.
const slots = 1 << 14

// slotOf returns the hash slot of a resource's keys, whose hash tag its name is.
func slotOf(resource string) int { return int(crc16(0, resource)) % slots }

// crc16 goes on with a CRC-16 (XMODEM), which Redis has for slots.
func crc16(sum uint16, text string) uint16 {
	for i := range len(text) {
		sum ^= uint16(text[i]) << 8
		for range 8 {
			if sum&0x8000 != 0 {
				sum = sum<<1 ^ 0x1021
			} else {
				sum <<= 1
			}
		}
	}
	return sum
}

// inSlot returns a name that begins with prefix, in a slot.
var inSlot = func() func(prefix string, slot int) string {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	ends := sync.OnceValue(func() []string { // by what three letters add to a sum
		list := make([]string, slots)
		for _, a := range letters {
			for _, b := range letters {
				for _, c := range letters {
					end := string([]rune{a, b, c})
					list[crc16(0, end)%slots] = end
				}
			}
		}
		return list
	})
	return func(prefix string, slot int) string {
		rest := crc16(crc16(0, prefix), "\x00\x00\x00") // sums are linear: what the letters add can be chosen
		return prefix + ends()[int(rest%slots)^slot]
	}
}()

// slotted is a backend on a Redis Cluster for the suite, whose commits over several resources
// know nothing of slots: it gives every resource a name in one slot.
type slotted struct {
	storage.Backend
	prefix string
	slot   int

	mu     sync.Mutex // guards the fields below
	inside map[string]string
	names  map[string]string // by the name inside
}

func newSlotted(tb testing.TB, b storage.Backend, slot int) *slotted {
	tb.Helper()
	return &slotted{Backend: b, prefix: testenv.Unique(tb, "slotted"), slot: slot, inside: map[string]string{}, names: map[string]string{}}
}

// in returns a resource's name in the cluster.
func (s *slotted) in(resource string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	name, ok := s.inside[resource]
	if !ok {
		name = inSlot(fmt.Sprintf("%s:%d:", s.prefix, len(s.inside)), s.slot)
		s.inside[resource], s.names[name] = name, resource
	}
	return name
}

func (s *slotted) out(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.names[name]
}

func (s *slotted) token(t fencing.Token) fencing.Token {
	t.Resource = s.in(t.Resource)
	return t
}

func (s *slotted) err(err error) error {
	if stale, ok := errors.AsType[*fencing.StaleError](err); ok {
		e := *stale
		e.Token.Resource = s.out(e.Token.Resource)
		return &e
	}
	if refused, ok := errors.AsType[*storage.RefusedError](err); ok {
		e := *refused
		e.Resource = s.out(e.Resource)
		return &e
	}
	return err
}

func (s *slotted) record(rec storage.Record, err error) (storage.Record, error) {
	if err == nil {
		rec.Resource = s.out(rec.Resource)
	}
	return rec, s.err(err)
}

func (s *slotted) Raise(ctx context.Context, t fencing.Token) error {
	return s.err(s.Backend.Raise(ctx, s.token(t)))
}

func (s *slotted) Retire(ctx context.Context, t fencing.Token) error {
	return s.err(s.Backend.Retire(ctx, s.token(t)))
}

func (s *slotted) Evict(ctx context.Context, t fencing.Token) error {
	return s.err(s.Backend.Evict(ctx, s.token(t)))
}

func (s *slotted) Mark(ctx context.Context, resource string) (fencing.Mark, error) {
	return s.Backend.Mark(ctx, s.in(resource))
}

func (s *slotted) Apply(ctx context.Context, batch []storage.Commit) []storage.Outcome {
	inside := make([]storage.Commit, len(batch))
	for i, c := range batch {
		inside[i] = c
		inside[i].Tokens, inside[i].Ops = nil, nil
		for _, t := range c.Tokens {
			inside[i].Tokens = append(inside[i].Tokens, s.token(t))
		}
		for _, op := range c.Ops {
			op.Resource = s.in(op.Resource)
			inside[i].Ops = append(inside[i].Ops, op)
		}
	}
	out := s.Backend.Apply(ctx, inside)
	for i := range out {
		out[i].Err = s.err(out[i].Err)
	}
	return out
}

func (s *slotted) Get(ctx context.Context, resource, key string) (storage.Record, error) {
	return s.record(s.Backend.Get(ctx, s.in(resource), key))
}

func (s *slotted) GetFenced(ctx context.Context, t fencing.Token, key string) (storage.Record, error) {
	return s.record(s.Backend.GetFenced(ctx, s.token(t), key))
}

func (s *slotted) List(ctx context.Context, resource, prefix, after string, limit int) ([]storage.Record, error) {
	list, err := s.Backend.List(ctx, s.in(resource), prefix, after, limit)
	for i := range list {
		list[i].Resource = s.out(list[i].Resource)
	}
	return list, s.err(err)
}
