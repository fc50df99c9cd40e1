package pgstore

import (
	"bytes"
	"context"
	"math/rand/v2"
	"runtime"
	"slices"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/pgtx"
	"github.com/fencegate/fencegate/storage"
)

const (
	// laneMost is how many commits a batch has at most.
	laneMost = 256
	// laneBytes is how large a commit may be to travel with others: what is larger would hold
	// them up.
	laneBytes = 256 << 10
	// laneIdle, laneWait and laneTime bound a batch, which belongs to no caller: between two
	// statements, for a lock (none is expected), and in all; and how long one waits for a
	// connection.
	laneIdle = 2 * time.Second
	laneWait = time.Second
	laneTime = 10 * time.Second
	// attempts is how often a commit is tried alone that a deadlock or a serialization failure
	// ended, and how often one of several resources is sent again because a mark was locked.
	attempts = 5
)

// Apply implements storage.Backend. Commits that come while others are on their way to the disk
// are carried out together, as one transaction; one that comes alone does not wait. A commit
// that has to wait for a mark leaves the others.
func (b *Backend) Apply(ctx context.Context, batch []storage.Commit) []storage.Outcome {
	out := make([]storage.Outcome, len(batch))
	if len(batch) == 1 {
		out[0] = b.follow(ctx, batch[0], b.first(ctx, batch[0]))
		return out
	}
	small := slices.DeleteFunc(slices.Clone(batch), large)
	verdicts := b.lane.Do(ctx, own(small)...)
	for i, c := range batch {
		v := verdict{next: alone}
		if !large(c) {
			v, verdicts = verdicts[0], verdicts[1:]
		}
		out[i] = b.follow(ctx, c, v)
	}
	return out
}

// first is the first attempt of one commit.
func (b *Backend) first(ctx context.Context, c storage.Commit) verdict {
	if large(c) {
		return verdict{next: alone}
	}
	if l := b.lines.open(c); l != nil {
		return b.lines.wait(ctx, l, c)
	}
	if visit := b.lane.Enter(laneWait); visit != 0 {
		defer b.lane.Leave(visit)
		return b.solo(ctx, c)
	}
	return b.lane.Do(ctx, own([]storage.Commit{c})...)[0]
}

// solo carries out a commit on its caller's goroutine and in its context.
func (b *Backend) solo(ctx context.Context, c storage.Commit) verdict {
	conn, err := b.pool.Acquire(ctx)
	if err != nil {
		return verdict{Outcome: storage.Outcome{Err: fencing.AsFailed(err)}}
	}
	defer conn.Release()
	b.o.OnBatch(1)
	if v, done := b.one(ctx, conn, c); done {
		return v
	}
	return b.carry(ctx, conn, pgtx.Limits{Idle: b.o.MaxIdle}, []storage.Commit{c}, false)[0]
}

// follow goes on with a commit for as long as it surely did not happen for no reason of its own.
func (b *Backend) follow(ctx context.Context, c storage.Commit, v verdict) storage.Outcome {
	for n := 1; v.next == busy; n++ {
		switch {
		case len(c.Tokens) == 1:
			v = b.lines.wait(ctx, b.lines.join(c), c)
		case n < attempts && pause(ctx, n):
			v = b.first(ctx, c)
		default:
			v.next = alone
		}
	}
	if v.next == alone {
		return b.apply(ctx, c)
	}
	return v.Outcome
}

// apply carries out a commit alone, and waits for its marks.
func (b *Backend) apply(ctx context.Context, c storage.Commit) storage.Outcome {
	for n := 1; ; n++ {
		v := b.attempt(ctx, c, false)
		if v.next == busy {
			v = b.await(ctx, c)
		}
		if n == attempts || !again(v.Err) || !pause(ctx, n) {
			return v.Outcome
		}
	}
}

// await is an attempt that waits for its marks in the server. Only so many do that at once: they
// must not take all connections away from those who need not wait.
func (b *Backend) await(ctx context.Context, c storage.Commit) verdict {
	select {
	case b.slow <- struct{}{}:
		defer func() { <-b.slow }()
	case <-ctx.Done():
		return gone(fencing.AsFailed(ctx.Err()))
	}
	return b.attempt(ctx, c, true)
}

func (b *Backend) attempt(ctx context.Context, c storage.Commit, wait bool) verdict {
	conn, err := b.pool.Acquire(ctx)
	if err != nil {
		return gone(fencing.AsFailed(err))
	}
	defer conn.Release()
	b.o.OnBatch(1)
	return b.carry(ctx, conn, pgtx.Limits{Idle: b.o.MaxIdle}, []storage.Commit{c}, wait)[0]
}

// pause waits a little, more the more often it was tried; false if the context ends first.
func pause(ctx context.Context, n int) bool {
	return pgtx.Pause(ctx, time.Duration(1+rand.IntN(4*n))*time.Millisecond)
}

// runLane carries out one batch.
func (b *Backend) runLane(take func() []storage.Commit) []verdict {
	wait, cancel := context.WithTimeout(context.Background(), laneTime)
	defer cancel()
	conn, err := b.pool.Acquire(wait)
	if err != nil {
		return unreached(take(), err)
	}
	defer conn.Release()
	// Those who were just answered come again, if they get to run: else every other batch would
	// be theirs, and each half as large. One at a time is as good as two, and better for one
	// hot resource.
	runtime.Gosched()
	commits := take()
	if len(commits) == 0 {
		return nil
	}
	b.o.OnBatch(len(commits))
	ctx, end := context.WithTimeout(context.Background(), laneTime)
	defer end()
	if len(commits) == 1 {
		if v, done := b.one(ctx, conn, commits[0]); done {
			return []verdict{v}
		}
	}
	return b.carry(ctx, conn, pgtx.Limits{Idle: min(laneIdle, b.o.MaxIdle), Wait: laneWait}, commits, false)
}

func unreached(commits []storage.Commit, err error) []verdict {
	return slices.Repeat([]verdict{{Outcome: storage.Outcome{Err: fencing.AsFailed(err)}}}, len(commits))
}

// own copies what the caller may change: it can be gone, its context at an end, while the
// batch is still on its way.
func own(commits []storage.Commit) []storage.Commit {
	list := slices.Clone(commits)
	for i := range list {
		c := &list[i]
		c.Tokens, c.Ops = slices.Clone(c.Tokens), slices.Clone(c.Ops)
		for j := range c.Ops {
			c.Ops[j].Value = bytes.Clone(c.Ops[j].Value)
		}
	}
	return list
}

func large(c storage.Commit) bool {
	n := 0
	for _, op := range c.Ops {
		n += len(op.Key) + len(op.Value)
	}
	return n > laneBytes
}
