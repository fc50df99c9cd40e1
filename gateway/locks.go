package gateway

import (
	"errors"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/gateway/wire"
	"github.com/fencegate/fencegate/locking"
)

// maxRenew is how many tokens one request may renew.
const maxRenew = 1000

// maxReason bounds the reason of an eviction, maxLabel is the issuer's bound of a label.
const maxReason, maxLabel = 200, 200

// lock is POST /v1/resources/{r}/lock.
func (g *Gateway) lock(c echo.Context) (err error) {
	arrived := time.Now()
	r, err := g.lockRequest(c)
	if err != nil {
		return err
	}
	if r.Wait > 0 {
		beyond(c, arrived.Add(r.Wait+2*g.o.Timeout))
	}
	ctx, cancel := g.context(c, r.Wait)
	defer cancel()

	key := grantKey{r.Resource, r.Grant}
	var granted locking.Granted
	delivered := false
	repeat := g.hands.begin(key)
	defer func() { // also when something panics
		if t := g.hands.end(key, granted.Token, delivered); t.Number > 0 {
			g.giveBack(c, t, r.Label)
		}
	}()
	waits := r.Wait > 0 || repeat // a repeat waits for what it repeats
	if waits {
		release, err := g.waitSlot(c)
		if err != nil {
			return err
		}
		defer release()
		waiting, end := g.waitContext(ctx)
		defer end()
		ctx = waiting
	}

	called := time.Now()
	granted, err = g.o.Issuer.Grant(ctx, r)
	if err != nil {
		return drained(ctx, err)
	}
	if gone := c.Request().Context().Err(); gone != nil {
		return fencing.AsFailed(gone)
	}
	if waits {
		if err := g.admitLate(c, r.Resource); err != nil {
			return err
		}
	}
	left := granted.ExpiresIn - (time.Since(called) - granted.Waited)
	if left <= 0 {
		return fencing.AsFailed(errors.New("the grant came too late to be trusted"))
	}
	mark(c, granted.Token.Number)
	err = reply(c, http.StatusCreated, wire.LockReply{
		Token: granted.Token.Text(), Number: wire.Int(granted.Token.Number),
		ExpiresIn: wire.Duration(left), Waited: wire.Duration(called.Sub(arrived) + granted.Waited),
	})
	if err == nil {
		// Not before the reply has left this process is it delivered.
		err = http.NewResponseController(c.Response().Writer).Flush()
		if errors.Is(err, http.ErrNotSupported) {
			err = nil
		}
	}
	delivered = err == nil
	return err
}

func (g *Gateway) lockRequest(c echo.Context) (locking.Request, error) {
	var r locking.Request
	name, err := resource(c)
	if err != nil {
		return r, err
	}
	if _, err := query(c); err != nil {
		return r, err
	}
	var m wire.LockRequest
	if err := g.message(c, &m); err != nil {
		return r, err
	}
	r = locking.Request{Resource: name, Grant: m.Grant, Label: m.Label}
	if r.Grant == "" {
		r.Grant = fencing.NewGrant()
	}
	if r.TTL, err = ttl(m.TTL); err != nil {
		return r, err
	}
	if m.Wait != nil {
		r.Wait = time.Duration(*m.Wait)
	}
	if r.Wait < 0 || r.Wait > g.o.MaxWait {
		return r, &fencing.InvalidError{What: "wait", Got: r.Wait.String(), Allowed: "0s to " + g.o.MaxWait.String()}
	}
	if err := r.Validate(); err != nil {
		return r, err
	}
	r.Label = hidden(r.Label, maxLabel)
	return r, nil
}

// renew is PATCH /v1/resources/{r}/lock.
func (g *Gateway) renew(c echo.Context) error {
	name, err := resource(c)
	if err != nil {
		return err
	}
	if _, err := query(c); err != nil {
		return err
	}
	t, err := mustToken(c, name)
	if err != nil {
		return err
	}
	var m wire.RenewRequest
	if err := g.message(c, &m); err != nil {
		return err
	}
	d, err := ttl(m.TTL)
	if err != nil {
		return err
	}
	ctx, cancel := g.context(c, 0)
	defer cancel()
	called := time.Now()
	if err := g.o.Issuer.Renew(ctx, d, []fencing.Token{t})[0]; err != nil {
		return err
	}
	return reply(c, http.StatusOK, wire.RenewReply{
		Number: wire.Int(t.Number), ExpiresIn: wire.Duration(d - time.Since(called)),
	})
}

// renewAll is POST /v1/locks/renew.
func (g *Gateway) renewAll(c echo.Context) error {
	if _, err := query(c); err != nil {
		return err
	}
	var m wire.RenewAllRequest
	if err := g.messageUpTo(c, g.o.MaxBody, &m); err != nil {
		return err
	}
	d, err := ttl(m.TTL)
	if err != nil {
		return err
	}
	if len(m.Tokens) < 1 || len(m.Tokens) > maxRenew {
		return &fencing.InvalidError{What: "tokens", Allowed: "1 to 1000 of them"}
	}
	for _, t := range m.Tokens {
		if err := g.allow(c, t.Resource); err != nil {
			return err
		}
	}
	tokens, err := wire.ParseTokens(m.Tokens)
	if err != nil {
		return err
	}
	ctx, cancel := g.context(c, 0)
	defer cancel()
	called := time.Now()
	verdicts := g.o.Issuer.Renew(ctx, d, tokens)
	out := wire.RenewAllReply{ExpiresIn: wire.Duration(d - time.Since(called)), Results: make([]wire.RenewResult, len(tokens))}
	for i, t := range tokens {
		out.Results[i] = wire.RenewResult{Resource: t.Resource, Number: wire.Int(t.Number)}
		if err := verdicts[i]; err != nil {
			p := wire.FromError(err)
			if p.Status >= http.StatusInternalServerError {
				p.Instance = newInstance()
				g.o.Logger.Error(p.Title, append(g.about(c), "resource", wire.Redact(t.Resource), "outcome", p.Outcome,
					"instance", p.Instance, "error", redactErr(err))...)
			}
			out.Results[i].Problem = &p
		}
	}
	return reply(c, http.StatusOK, out)
}

// release is DELETE /v1/resources/{r}/lock. Where the lock was freed although a store did
// not retire the token, the problem says so.
func (g *Gateway) release(c echo.Context) error {
	name, err := resource(c)
	if err != nil {
		return err
	}
	if _, err := query(c); err != nil {
		return err
	}
	t, err := mustToken(c, name)
	if err != nil {
		return err
	}
	ctx, cancel := g.context(c, 0)
	defer cancel()
	freed, err := g.o.Issuer.Release(ctx, t)
	if err != nil {
		return &releaseError{err, freed}
	}
	return reply(c, http.StatusOK, wire.ReleaseReply{Released: freed})
}

// releaseError is an error beside which the lock may have been freed.
type releaseError struct {
	error
	freed bool
}

func (e *releaseError) Unwrap() error { return e.error }

// lockStatus is GET /v1/resources/{r}/lock.
func (g *Gateway) lockStatus(c echo.Context) error {
	name, err := resource(c)
	if err != nil {
		return err
	}
	if _, err := query(c); err != nil {
		return err
	}
	ctx, cancel := g.context(c, 0)
	defer cancel()
	st, err := g.o.Issuer.Status(ctx, name)
	if err != nil {
		return err
	}
	return reply(c, http.StatusOK, wire.FromStatus(st))
}

// listLocks is GET /v1/locks.
func (g *Gateway) listLocks(c echo.Context) error {
	q, err := query(c, "prefix", "after", "limit")
	if err != nil {
		return err
	}
	n, err := limit(q)
	if err != nil {
		return err
	}
	if err := g.allowPrefix(c, q.Get("prefix")); err != nil {
		return err
	}
	ctx, cancel := g.context(c, 0)
	defer cancel()
	list, err := g.o.Issuer.List(ctx, q.Get("prefix"), q.Get("after"), n)
	if err != nil {
		return err
	}
	out := wire.LockList{Locks: make([]wire.LockStatus, len(list))}
	for i, st := range list {
		out.Locks[i] = wire.FromStatus(st)
	}
	if len(list) == n {
		out.Next = list[n-1].Resource
	}
	return reply(c, http.StatusOK, out)
}

// evict is POST /v1/resources/{r}/lock/evict.
func (g *Gateway) evict(c echo.Context) error {
	name, err := resource(c)
	if err != nil {
		return err
	}
	if _, err := query(c); err != nil {
		return err
	}
	var m wire.EvictRequest
	if err := g.message(c, &m); err != nil {
		return err
	}
	if m.Number == nil {
		return &fencing.InvalidError{What: "number", Allowed: "the number of the grant to evict"}
	}
	if err := errors.Join(fencing.ValidateNumber(int64(*m.Number)), validateReason(m.Reason)); err != nil {
		return err
	}
	ctx, cancel := g.context(c, 0)
	defer cancel()
	if err := g.o.Issuer.Evict(ctx, name, int64(*m.Number), hidden(m.Reason, maxReason)); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

func validateReason(reason string) error {
	ok := len(reason) <= maxReason
	for i := 0; ok && i < len(reason); i++ {
		ok = reason[i] >= ' ' && reason[i] <= '~'
	}
	if ok {
		return nil
	}
	return &fencing.InvalidError{What: "reason", Allowed: "at most 200 characters of printable ASCII"}
}
