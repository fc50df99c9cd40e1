package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/diagram"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/locking/redlock"
)

// tellBackOff is the second telling on real servers: two clients of locking/redlock, whose first vote
// is split by force and who are left to themselves from then on.
func tellBackOff(ctx context.Context, s *Scene) error {
	store, ok := s.data.(fenced)
	if !ok {
		return errors.New("the store checks no tokens")
	}
	if err := s.foundCluster(ctx); err != nil {
		return err
	}
	if err := s.Nodes[4].Kill(ctx); err != nil {
		return err
	}
	s.begin()
	s.Bad(Lock, "5: dead")

	vote := newSplitVote(s)
	issuers := map[string]locking.Issuer{}
	for _, who := range []string{A, B} {
		b, done, err := s.redlockOf(who, vote)
		if err != nil {
			return err
		}
		defer done()
		if issuers[who], err = locking.NewIssuer(b, []fencing.Fence{store.store}, nil); err != nil {
			return err
		}
	}
	var wg sync.WaitGroup
	for who, issuer := range issuers {
		wg.Go(func() {
			if err := s.serve(ctx, who, issuer); err != nil {
				s.fail(fmt.Errorf("%s: %w", who, err))
			}
		})
	}
	wg.Wait()
	return nil
}

// serve is one client: lock, read, write, release.
func (s *Scene) serve(ctx context.Context, who string, issuer locking.Issuer) error {
	g, err := issuer.Grant(ctx, locking.Request{Resource: s.thing.key(), Label: who, TTL: 30 * time.Second, Wait: -1, Floor: firstNumber - 1})
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.tokens[who] = g.Token
	s.mu.Unlock()
	s.draw(
		diagram.Item{From: Lock, To: Store, Label: fmt.Sprintf("raise %d", g.Token.Number)},
		diagram.Item{From: Lock, To: who, Label: fmt.Sprintf("granted: token %d", g.Token.Number)})
	s.Change(ctx, who, +1)
	s.draw(diagram.Item{From: who, To: Lock, Label: fmt.Sprintf("release %d", g.Token.Number)})
	_, err = issuer.Release(ctx, g.Token)
	return err
}

// foundCluster makes the five nodes a cluster, and its scripts known to them.
func (s *Scene) foundCluster(ctx context.Context) error {
	b, done, err := s.redlockOf("", nil)
	if err != nil {
		return err
	}
	defer done()
	if err := b.Init(ctx, nil); err != nil {
		return err
	}
	h, err := b.TryAcquire(ctx, locking.Request{Resource: "overture", Grant: fencing.NewGrant(), TTL: 30 * time.Second})
	if err != nil {
		return err
	}
	_, err = b.Release(ctx, h.Token)
	return err
}

// redlockOf is fencegate's Redlock over connections of who's own.
func (s *Scene) redlockOf(who string, vote *splitVote) (*redlock.Backend, func(), error) {
	var nodes []redis.UniversalClient
	for i, n := range s.Nodes {
		c := redis.NewClient(&redis.Options{
			Addr: n.Addr(), MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true, DisableIdentity: true, Protocol: 2,
		})
		if vote != nil {
			c.AddHook(&voter{vote: vote, who: who, node: i})
		}
		nodes = append(nodes, c)
	}
	b, err := redlock.New(nodes, &redlock.Options{NodeTimeout: 10 * time.Second}) // nobody is slow here
	return b, func() {
		for _, c := range nodes {
			_ = c.Close()
		}
	}, err
}

// splitVote sees to it that A is the first at nodes 1 and 2, and B at 3 and 4, once, and that nobody
// hears of anything before all have voted: who knew that it has no majority would give its votes back.
type splitVote struct {
	scene *Scene
	voted [4]chan struct{} // closed when the first has been there
	all   chan struct{}    // closed when both have been everywhere

	mu    sync.Mutex // guards what follows
	asked map[string]int
	got   map[string]int
}

func newSplitVote(s *Scene) *splitVote {
	v := &splitVote{scene: s, all: make(chan struct{}), asked: map[string]int{}, got: map[string]int{}}
	for i := range v.voted {
		v.voted[i] = make(chan struct{})
	}
	return v
}

// voter stands between one client and one node.
type voter struct {
	vote *splitVote
	who  string
	node int
	once sync.Once // the first vote
}

func (v *voter) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (v *voter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (v *voter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) (err error) {
		voted := false
		if strings.EqualFold(cmd.Name(), "evalsha") {
			v.once.Do(func() { voted, err = true, v.first(ctx, cmd, next) })
		}
		if !voted {
			err = next(ctx, cmd)
		}
		return err
	}
}

// first is the first vote.
func (v *voter) first(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
	if v.node == 4 {
		return next(ctx, cmd)
	}
	voted := v.vote.voted[v.node]
	early := (v.who == A) == (v.node < 2)
	if !early {
		wait(ctx, voted)
	}
	err := next(ctx, cmd)
	answer := "no answer"
	if c, ok := cmd.(interface{ StringSlice() ([]string, error) }); ok && err == nil {
		if words, _ := c.StringSlice(); len(words) > 0 {
			answer = words[0]
		}
	}
	v.vote.scene.Lock(v.who, fmt.Sprintf("%d: vote", v.node+1), answer)
	if early {
		close(voted)
	}
	v.vote.count(v.who, answer == "granted")
	wait(ctx, v.vote.all)
	return err
}

func wait(ctx context.Context, done <-chan struct{}) {
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// count draws what has come of who's first votes when all four are in.
func (v *splitVote) count(who string, granted bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.asked[who]++
	if granted {
		v.got[who]++
	}
	if v.asked[who] < len(v.voted) {
		return
	}
	v.scene.Must(v.got[who] == 2, "%s has two votes", who)
	v.scene.Bad(who, "2 votes of 5: no")
	v.scene.Note(who, "pauses at random")
	if v.asked[A]+v.asked[B] == 2*len(v.voted) {
		close(v.all)
	}
}
