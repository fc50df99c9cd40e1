package client

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/gateway/wire"
	"github.com/fencegate/fencegate/locking"
)

// granting is one Grant under way.
type granting struct {
	i     *Issuer
	r     locking.Request
	own   bool      // the grant id was made here and may be replaced
	first time.Time // before anything was sent
	tries int       // how many more attempts may go wrong
	pause time.Duration
	wrong error // what the last attempt that went wrong said

	// unknown is of an attempt that may have left something for r.Grant, nil for none. Only who
	// knows the lock can say that it has not; a refusal at the door does not.
	unknown error
}

// Grant implements [locking.Issuer]. The grant id is chosen before the first sending, so
// that a repeat after a lost reply gets the same hold. A Floor is the issuer's own
// affair and is refused.
func (i *Issuer) Grant(ctx context.Context, r locking.Request) (locking.Granted, error) {
	g := &granting{i: i, r: r, first: time.Now(), tries: i.c.o.Retries, pause: firstPause}
	if g.own = r.Grant == ""; g.own {
		g.r.Grant = fencing.NewGrant()
	}
	if err := g.r.Validate(); err != nil {
		return locking.Granted{}, err
	}
	if r.Floor != 0 {
		return locking.Granted{}, &fencing.InvalidError{What: "floor", Allowed: "0: the gateway finds it out"}
	}
	for {
		wait := g.wait()
		sent := time.Now()
		granted, a, err := i.ask(ctx, g.r, wait)
		if err == nil {
			granted.Waited += sent.Sub(g.first)
			return granted, nil
		}
		if again, err := g.after(ctx, a, err, wait-time.Since(sent)); !again {
			return locking.Granted{}, err
		}
	}
}

// wait returns how long the next request may wait.
func (g *granting) wait() time.Duration {
	most := g.i.c.o.MaxWait
	if g.r.Wait < 0 {
		return most
	}
	return min(most, max(0, g.r.Wait-time.Since(g.first)))
}

// after decides what follows an attempt that was not granted; early is by how much it was
// answered before its wait was over.
func (g *granting) after(ctx context.Context, a answer, err error, early time.Duration) (again bool, _ error) {
	_, held := errors.AsType[*locking.HeldError](err)
	switch {
	case held:
		g.unknown = nil // another has the lock, so this grant has not
		// A wait may outlast any number of restarts, as long as it gets on in between.
		g.tries, g.pause = g.i.c.o.Retries, firstPause
		if g.r.Wait >= 0 && time.Since(g.first) >= g.r.Wait {
			return false, err
		}
		// A gateway that does not wait as long as it was asked to must not be asked
		// without pause.
		if early > firstPause && !sleep(ctx, firstPause) || ctx.Err() != nil {
			return false, errors.Join(err, ended(ctx))
		}
		return true, nil
	case errors.Is(err, locking.ErrLost) && g.wrong != nil:
		// An attempt that went wrong has been cleaned up on the gateway's side.
		if !g.own || g.tries == 0 {
			return false, err
		}
		g.tries--
		g.r.Grant, g.unknown = fencing.NewGrant(), nil
		return true, nil
	}
	if o := fencing.OutcomeOf(err); o != fencing.Refused {
		g.wrong = err
		if o == fencing.Unknown {
			g.unknown = err
		}
		if g.tries > 0 && g.i.c.rest(ctx, a, &g.pause) {
			g.tries--
			return true, nil
		}
	}
	if g.unknown == nil {
		return false, err
	}
	if g.i.free(ctx, g.r) && ctx.Err() != nil {
		return false, ended(ctx)
	}
	return false, g.unknown
}

// ask sends one lock request.
func (i *Issuer) ask(ctx context.Context, r locking.Request, wait time.Duration) (locking.Granted, answer, error) {
	body := wire.LockRequest{TTL: wire.Span(r.TTL), Label: r.Label, Grant: r.Grant}
	if wait > 0 {
		body.Wait = wire.Span(wait)
	}
	var m wire.LockReply
	sent := time.Now()
	a, err := i.c.attempt(ctx, call{
		method: http.MethodPost, path: lockPath(r.Resource), want: http.StatusCreated,
		body: body, into: &m, wait: wait,
	})
	if err != nil {
		return locking.Granted{}, a, err
	}
	t, err := fencing.ParseToken(r.Resource, m.Token)
	if err != nil || t.Grant != r.Grant || t.Number != int64(m.Number) || m.ExpiresIn <= 0 || m.Waited < 0 {
		return locking.Granted{}, a, fencing.AsUnknown(errors.New("the reply to a lock request does not fit it"))
	}
	return locking.Granted{
		Token:     t,
		ExpiresIn: time.Duration(m.ExpiresIn),
		// Nobody waited longer than the request took: a gateway whose clock jumped must
		// not make a lease last longer.
		Waited: min(time.Duration(m.Waited), time.Since(sent)),
	}, a, nil
}

// free frees what the grant may have left, and reports whether surely nothing is left.
// Only the grant id is known: the same request without waiting tells the token, which is
// then released. Should it take the lock afresh, it is freed at once.
func (i *Issuer) free(ctx context.Context, r locking.Request) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), i.c.o.Cleanup)
	defer cancel()
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		granted, a, err := i.ask(ctx, r, 0)
		if err == nil {
			_, err := i.Release(ctx, granted.Token)
			return err == nil
		}
		if errors.Is(err, locking.ErrHeld) || errors.Is(err, locking.ErrLost) {
			return true // held by another, or ended
		}
		if ctx.Err() != nil || !i.c.fleet.another(a.at) && !sleep(ctx, pause) {
			return false
		}
	}
}
