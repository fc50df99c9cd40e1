package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/internal/diagram"
)

// Client is who's connection to the lock's Redis, or to its first node. Every command is drawn, with
// its answer. An answer that does not come is a failure of the telling.
func (s *Scene) Client(who string) *redis.Client { return s.client(who, 0, true) }

// Node is who's connection to one of the nodes. Every command is drawn with the number of the node,
// from 1. An answer that does not come is part of the story; bound the call by its context.
func (s *Scene) Node(who string, i int) *redis.Client { return s.client(who, i, false) }

func (s *Scene) client(who string, i int, must bool) *redis.Client {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := fmt.Sprint(who, i, must)
	if c, ok := s.clients[id]; ok {
		return c
	}
	c := dial(s.Nodes[i].Addr())
	h := &hook{scene: s, who: who, must: must}
	if !must {
		h.prefix = fmt.Sprintf("%d: ", i+1)
	}
	c.AddHook(h)
	s.clients[id] = c
	return c
}

// dial returns a client that sends every command once: what is repeated behind the story's back would
// not be its story.
func dial(addr string) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, ContextTimeoutEnabled: true, DisableIdentity: true, Protocol: 2})
}

// hook draws what goes over a client's connection.
type hook struct {
	scene  *Scene
	who    string
	prefix string
	must   bool
}

func (h *hook) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (h *hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		h.draw(cmd, err)
		return err
	}
}

func (h *hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		for _, cmd := range cmds {
			h.draw(cmd, cmd.Err())
		}
		return err
	}
}

func (h *hook) draw(cmd redis.Cmder, err error) {
	name := strings.ToUpper(cmd.Name())
	switch name {
	case "HELLO", "CLIENT", "AUTH", "SELECT":
		return // the client library's own
	}
	style, answer := diagram.Plain, reply(cmd)
	var said redis.Error
	switch {
	case err == nil:
	case errors.Is(err, redis.Nil):
		answer = "nil"
	case errors.As(err, &said):
		style, answer = diagram.Bad, said.Error()
	default:
		style, answer = diagram.Bad, "no answer"
		if h.must {
			h.scene.fail(fmt.Errorf("%s: %s: %w", h.who, words(cmd), err))
		}
	}
	h.scene.call(h.who, h.prefix+words(cmd), answer, style)
}

// words is a command as it is typed. A script goes by its first line, which is to be a comment.
func words(cmd redis.Cmder) string {
	args := cmd.Args()
	out := []string{strings.ToUpper(cmd.Name())}
	rest := args[1:]
	if n := strings.ToUpper(cmd.Name()); (n == "EVAL" || n == "EVALSHA") && len(args) > 3 {
		script, _ := args[1].(string)
		first, _, _ := strings.Cut(script, "\n")
		out = []string{strings.TrimSpace(strings.TrimLeft(first, "- "))}
		rest = args[3:]
	}
	for _, a := range rest {
		out = append(out, word(a))
	}
	return strings.Join(out, " ")
}

// reply is an answer as it came over the wire: where go-redis makes true of it, 1 or OK.
func reply(cmd redis.Cmder) string {
	switch c := cmd.(type) {
	case *redis.BoolCmd:
		set := strings.EqualFold(cmd.Name(), "SET")
		switch {
		case c.Val() && set:
			return "OK"
		case c.Val():
			return "1"
		case set:
			return "nil"
		default:
			return "0"
		}
	case *redis.StatusCmd:
		return c.Val()
	case *redis.StringCmd:
		return c.Val()
	case *redis.IntCmd:
		return fmt.Sprint(c.Val())
	case *redis.DurationCmd:
		if c.Val() < 0 { // no expiry, or no key
			return strconv.FormatInt(int64(c.Val()), 10)
		}
		return strconv.FormatInt(c.Val().Milliseconds(), 10)
	case *redis.Cmd:
		return fmt.Sprint(c.Val())
	}
	return ""
}

// word is one argument; options that go-redis sends in small letters are written in capitals, as the
// documentation has them.
func word(a any) string {
	w := fmt.Sprint(a)
	switch w {
	case "nx", "xx", "px", "ex", "get", "keepttl":
		return strings.ToUpper(w)
	}
	return w
}
