package pgstore

import (
	"context"
	"maps"
	"runtime"
	"sync"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/lane"
	"github.com/fencegate/fencegate/internal/pgtx"
	"github.com/fencegate/fencegate/storage"
)

// lookEvery is how often a line that waits for a mark looks whether anybody is still in it.
const lookEvery = 2 * time.Second

// lines are where commits of one resource wait for a mark that somebody else has locked, one
// line a mark. The first of each waits in the server, for all; what has come when it has the
// mark is one transaction. Were each to wait by itself, a hot resource of several processes
// would go from group commit to a queue of single ones, and never back.
type lines struct {
	b  *Backend
	mu sync.Mutex // guards all
	of map[string]*line
}

type line struct {
	*lane.Lane[storage.Commit, verdict]
	token fencing.Token // what the last one in line had: the mark, as far as is known
	users int           // callers in it
}

// open returns the line that a commit had better go to at once: there is one for its token.
func (l *lines) open(c storage.Commit) *line {
	if len(c.Tokens) != 1 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	x := l.of[c.Tokens[0].Resource]
	if x == nil || x.users == 0 || x.token != c.Tokens[0] {
		return nil
	}
	x.users++
	return x
}

// join returns the line for a commit of one resource whose mark was locked.
func (l *lines) join(c storage.Commit) *line {
	t := c.Tokens[0]
	l.mu.Lock()
	defer l.mu.Unlock()
	x := l.of[t.Resource]
	if x == nil {
		x = &line{}
		x.Lane = lane.New(laneMost, func(take func() []storage.Commit) []verdict { return l.b.runLine(x, t.Resource, take) }, gone)
		l.of[t.Resource] = x
	}
	x.token = t
	x.users++
	return x
}

// wait puts a commit in a line that open or join has returned.
func (l *lines) wait(ctx context.Context, x *line, c storage.Commit) verdict {
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		x.users--
		// One that still waits in the server, though all have left, must not become two.
		maps.DeleteFunc(l.of, func(_ string, x *line) bool { return x.users == 0 && x.Idle() })
	}()
	return x.Do(ctx, own([]storage.Commit{c})...)[0]
}

// runLine waits for a mark and carries out all commits that are in its line by then.
func (b *Backend) runLine(x *line, resource string, take func() []storage.Commit) []verdict {
	for {
		// A place for each look, as for those who wait alone: a mark that stays locked must not
		// keep one from another that is free by now.
		b.slow <- struct{}{}
		if x.Waiting() == 0 { // all have left
			<-b.slow
			return nil
		}
		out, done := b.tryLine(resource, take, func() bool { return x.Waiting() > 0 })
		<-b.slow
		if done {
			return out
		}
	}
}

func (b *Backend) tryLine(resource string, take func() []storage.Commit, anybody func() bool) (out []verdict, done bool) {
	wait, cancel := context.WithTimeout(context.Background(), laneTime)
	defer cancel()
	conn, err := b.pool.Acquire(wait)
	if err != nil {
		return unreached(take(), err), true
	}
	defer conn.Release()
	ctx, end := context.WithTimeout(context.Background(), laneTime)
	defer end()
	defer pgtx.Rollback(ctx, conn)
	r := b.round(conn, nil)
	l := pgtx.Limits{Idle: min(laneIdle, b.o.MaxIdle), Wait: lookEvery}
	err = r.enter(ctx, l, []wanted{{fencing.Token{Resource: resource}, true}}, true, false)
	if pgtx.HasCode(err, pgtx.LockNotAvailable) && anybody() {
		return nil, false
	}
	runtime.Gosched() // as a batch does
	r.take(take())
	if len(r.commits) == 0 {
		return nil, true
	}
	b.o.OnBatch(len(r.commits))
	if err == nil {
		err = r.read(ctx)
	}
	if err != nil {
		return r.failed(err), true
	}
	r.judge()
	return r.finish(ctx, true), true
}

// take gives a round that has its marks the commits.
func (r *round) take(commits []storage.Commit) {
	r.commits, r.out, r.rests = commits, make([]verdict, len(commits)), make([]rest, len(commits))
}

func gone(err error) verdict { return verdict{Outcome: storage.Outcome{Err: err}} }
