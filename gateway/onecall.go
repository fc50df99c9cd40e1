package gateway

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/gateway/apikey"
	"github.com/fencegate/fencegate/gateway/wire"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/storage"
)

// onecallTurns is how often a one-call commit takes its locks at most. Once is enough, unless a
// hold expires on the way or the store is restarted.
const onecallTurns = 4

// alone is a commit for which the gateway takes the locks.
type alone struct {
	storage.Commit // without tokens
	resources      []string
	label          string
	wait           time.Duration
	end            time.Time // of the wait
}

// commitAlone is POST /v1/commits with lock in place of tokens: the gateway takes the locks,
// commits, and frees them.
func (g *Gateway) commitAlone(c echo.Context, m wire.Commit) error {
	arrived := time.Now()
	a, err := g.alone(c, m)
	if err != nil {
		return err
	}
	a.end = arrived.Add(a.wait)
	if a.wait > 0 {
		beyond(c, arrived.Add(a.wait+2*g.o.Timeout))
	}
	if res, found, err := g.known(c, a); err != nil {
		return err
	} else if found {
		return committed(c, a.Ops, res, 0)
	}
	res, number, err := g.take(c, a)
	if err != nil {
		return err
	}
	return committed(c, a.Ops, res, number)
}

// known validates the commit, and looks its key up: who asks again after a lost reply must not
// wait for a lock to learn what became of it.
func (g *Gateway) known(c echo.Context, a alone) (res storage.Result, found bool, err error) {
	if a.Key == "" {
		return res, false, g.o.Store.Validate(a.Commit)
	}
	ctx, cancel := g.context(c, 0)
	defer cancel()
	return g.o.Store.Answered(ctx, a.Commit)
}

// committed writes the reply to a commit; number is that of its one token, 0 for none or several.
func committed(c echo.Context, ops []storage.Op, res storage.Result, number int64) error {
	if number > 0 && !res.Replayed {
		mark(c, number)
	}
	replayed(c, res)
	return reply(c, http.StatusOK, wire.FromResult(ops, res))
}

// alone reads the request, and asks who may make it.
func (g *Gateway) alone(c echo.Context, m wire.Commit) (a alone, err error) {
	if len(m.Tokens) > 0 {
		return a, &fencing.InvalidError{What: "lock", Allowed: "lock or tokens, not both"}
	}
	if g.o.Store.Mode() != fencing.Strict {
		return a, &fencing.InvalidError{What: "lock", Allowed: "tokens: an outside lock service grants the locks of a classic store's resources"}
	}
	if m.Lock.Wait != nil {
		a.wait = time.Duration(*m.Lock.Wait)
	}
	if a.wait < 0 || a.wait > g.o.MaxWait {
		return a, &fencing.InvalidError{What: "wait", Got: a.wait.String(), Allowed: "0s to " + g.o.MaxWait.String()}
	}
	a.label = m.Lock.Label
	if a.Key, err = idempotencyKey(c); err != nil {
		return a, err
	}
	resources := map[string]bool{}
	a.Ops = make([]storage.Op, len(m.Ops))
	for i, o := range m.Ops {
		if a.Ops[i], err = o.Op(); err != nil {
			return a, err
		}
		if err := validateID(o.Resource, o.Key); err != nil {
			return a, err
		}
		resources[o.Resource] = true
	}
	a.resources = slices.Sorted(maps.Keys(resources))
	for _, resource := range a.resources {
		r := locking.Request{Resource: resource, Grant: fencing.NewGrant(), Label: a.label, TTL: holdTTL}
		if err := r.Validate(); err != nil {
			return a, err
		}
		if err := g.allow(c, resource); err != nil {
			return a, err
		}
	}
	return a, g.allowScope(c, apikey.Lock|apikey.Write)
}

// take commits under locks that it takes, and frees them. number is that of the lock, if it is
// one.
func (g *Gateway) take(c echo.Context, a alone) (res storage.Result, number int64, err error) {
	ctx, cancel := g.context(c, a.wait)
	defer cancel()
	waiting := ctx // ends when the waiting must
	if a.wait > 0 {
		release, err := g.waitSlot(c)
		if err != nil {
			return res, 0, err
		}
		defer release()
		var stop context.CancelFunc
		waiting, stop = g.waitContext(ctx)
		defer stop()
	}
	for n := 1; ; n++ {
		if len(a.resources) == 1 {
			res, number, err = g.combine(ctx, waiting, a, n > 1)
		} else {
			res, err = g.several(ctx, waiting, a)
		}
		// A stale token is not the client's, who sent none: a hold was lost on the way, the store
		// has refused the commit, and the locks are taken again.
		if !isStale(err) {
			return res, number, err
		}
		if n == onecallTurns {
			return res, 0, fencing.AsFailed(fmt.Errorf("the locks of a one-call commit were lost %d times: %s", n, err.Error()))
		}
	}
}

// combine commits in a turn with others that want the same resource.
func (g *Gateway) combine(ctx, waiting context.Context, a alone, again bool) (res storage.Result, number int64, err error) {
	t, err := g.combined.enter(waiting, a.resources[0], &member{label: a.label, end: a.end, again: again})
	if err != nil {
		return res, 0, drained(waiting, notWritten(err))
	}
	refused := false
	defer func() { g.combined.done(ctx, t, refused) }() // also when something panics
	res, err = g.underLocks(ctx, a, t.token)
	refused = isStale(err)
	return res, t.token.Number, err
}

// several commits under the locks of several resources, which it takes in their order: two that
// want the same ones never wait for each other.
func (g *Gateway) several(ctx, waiting context.Context, a alone) (storage.Result, error) {
	held := make([]fencing.Token, 0, len(a.resources))
	defer func() { g.combined.free(ctx, held...) }() // also when something panics
	k := g.combined.keep(ctx)
	defer k.stop()
	for _, resource := range a.resources {
		granted, err := g.grantOne(waiting, a, resource)
		if err != nil {
			return storage.Result{}, drained(waiting, notWritten(err))
		}
		held = append(held, granted.Token)
		k.add(granted.Token)
	}
	k.finish(nil)
	return g.underLocks(ctx, a, held...)
}

// grantOne takes one of the locks of a commit, again where its grant came too late.
func (g *Gateway) grantOne(ctx context.Context, a alone, resource string) (locking.Granted, error) {
	for {
		asked := time.Now()
		granted, err := g.o.Issuer.Grant(ctx, locking.Request{
			Resource: resource, Label: a.label, TTL: holdTTL, Wait: max(0, time.Until(a.end)),
		})
		if !tooLate(err, asked) || ctx.Err() != nil {
			return granted, err
		}
	}
}

// underLocks sends the commit to the store, if its client is still there.
func (g *Gateway) underLocks(ctx context.Context, a alone, tokens ...fencing.Token) (storage.Result, error) {
	if ctx.Err() != nil {
		return storage.Result{}, ended(ctx)
	}
	com := a.Commit
	com.Tokens = tokens
	return g.o.Store.Commit(ctx, com)
}

func isStale(err error) bool {
	return errors.Is(err, fencing.ErrStale) && fencing.OutcomeOf(err) == fencing.Refused
}
