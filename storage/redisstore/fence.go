package redisstore

import (
	"context"
	"fmt"
	"strconv"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/redisx"
)

// Raise implements fencing.Fence.
func (b *Backend) Raise(ctx context.Context, t fencing.Token) error {
	return b.change(ctx, raise, t)
}

// Retire implements fencing.Fence.
func (b *Backend) Retire(ctx context.Context, t fencing.Token) error {
	return b.change(ctx, retire, t)
}

// Evict implements fencing.Fence.
func (b *Backend) Evict(ctx context.Context, t fencing.Token) error {
	return b.change(ctx, evict, t)
}

func (b *Backend) change(ctx context.Context, s *redisx.Script, t fencing.Token) error {
	if err := t.Validate(); err != nil {
		return err
	}
	reply, err := b.sender.Run(ctx, s, redisx.Call{
		Keys: []string{b.mark(t.Resource), b.answers(t.Resource)}, Args: []any{decimal(t.Number), t.Grant},
	})
	if err != nil || reply[0] == "ok" {
		return err
	}
	return stale([]fencing.Token{t}, reply)
}

// Mark implements fencing.Fence.
func (b *Backend) Mark(ctx context.Context, resource string) (fencing.Mark, error) {
	if err := fencing.ValidateResource(resource); err != nil {
		return fencing.Mark{}, err
	}
	reply, err := b.sender.Run(ctx, mark, redisx.Call{Keys: []string{b.mark(resource)}})
	if err != nil {
		return fencing.Mark{}, err
	}
	if len(reply) != 3 {
		return fencing.Mark{}, strange(reply)
	}
	n, err := strconv.ParseInt(reply[0], 10, 64)
	if err != nil {
		return fencing.Mark{}, strange(reply)
	}
	return fencing.Mark{Number: n, Grant: reply[1], Retired: reply[2] != "0"}, nil
}

// stale reads {'stale', index of the token, reason, highest}.
func stale(tokens []fencing.Token, reply []string) error {
	if len(reply) != 4 || reply[0] != "stale" {
		return strange(reply)
	}
	i, err := strconv.Atoi(reply[1])
	if err != nil || i < 0 || i >= len(tokens) {
		return strange(reply)
	}
	highest, err := strconv.ParseInt(reply[3], 10, 64)
	if err != nil {
		return strange(reply)
	}
	switch reason := fencing.Reason(reply[2]); reason {
	case fencing.Superseded, fencing.Ungranted, fencing.Retired, fencing.Duplicate:
		return &fencing.StaleError{Token: tokens[i], Highest: highest, Reason: reason}
	}
	return strange(reply)
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

// strange is the error for an answer that no script of this package gives. It shows the
// first word only: others may be data.
func strange(reply []string) error {
	return fencing.AsUnknown(fmt.Errorf("redis: a script answered %d strings, the first %.20q", len(reply), reply[0]))
}
