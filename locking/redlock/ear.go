package redlock

import (
	"context"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/internal/redisx"
)

// ear listens to one node, on one connection. Two goroutines belong to it, since go-redis
// subscribes in one and receives in another; both end soon after cancel.
type ear struct {
	sub    *redis.PubSub
	cancel context.CancelFunc
	change chan struct{} // holds one element when the topics have changed
}

// listen makes the subscriptions follow the topics. It needs bell.mu and does not block.
func (b *Backend) listen() {
	if len(b.bell.topics) == 0 {
		for _, e := range b.bell.ears {
			e.cancel()
		}
		b.bell.ears = nil
		return
	}
	if b.bell.ears == nil {
		for _, n := range b.nodes {
			ctx, cancel := context.WithCancel(context.Background())
			e := &ear{sub: n.client.Subscribe(ctx), cancel: cancel, change: make(chan struct{}, 1)}
			b.bell.ears = append(b.bell.ears, e)
			go b.receive(ctx, e)
			go b.subscribe(ctx, e)
		}
	}
	for _, e := range b.bell.ears {
		select {
		case e.change <- struct{}{}:
		default:
		}
	}
}

func (b *Backend) channel(resource string) string { return redisx.Key(b.prefix, resource, "free") }

// subscribe keeps the node's subscriptions as the topics are. A command that fails is not
// repeated here: go-redis makes up for it when it connects anew.
func (b *Backend) subscribe(ctx context.Context, e *ear) {
	defer e.sub.Close()
	on := map[string]*topic{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.change:
		}
		var more, less []string
		b.bell.mu.Lock()
		for resource, t := range b.bell.topics {
			if on[resource] != t { // a topic that begins anew wants to be told so, too
				on[resource] = t
				more = append(more, b.channel(resource))
			}
		}
		for resource := range on {
			if b.bell.topics[resource] == nil {
				delete(on, resource)
				less = append(less, b.channel(resource))
			}
		}
		b.bell.mu.Unlock()
		if len(more) > 0 {
			_ = e.sub.Subscribe(ctx, more...)
		}
		if len(less) > 0 {
			_ = e.sub.Unsubscribe(ctx, less...)
		}
	}
}

// receive rings the bell for what the node says.
func (b *Backend) receive(ctx context.Context, e *ear) {
	begin, end, _ := strings.Cut(b.channel("*"), "*")
	name := func(channel string) string { return strings.TrimSuffix(strings.TrimPrefix(channel, begin), end) }
	const patience = 100 * time.Millisecond
	for pause := patience; ctx.Err() == nil; {
		got, err := e.sub.Receive(ctx)
		if err != nil {
			select {
			case <-ctx.Done():
			case <-time.After(pause):
			}
			pause = min(2*pause, 16*patience)
			continue
		}
		pause = patience
		switch m := got.(type) {
		case *redis.Subscription:
			if m.Kind == "subscribe" {
				b.begun(name(m.Channel))
			}
		case *redis.Message:
			number, ears, _ := strings.Cut(m.Payload, " ")
			b.ended(name(m.Channel), parse(number), int(parse(ears)))
		}
	}
}
