package client

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/gateway/wire"
	"github.com/fencegate/fencegate/locking"
)

// Issuer is the gateway's issuer. It is safe for concurrent use.
type Issuer struct {
	c *Client
}

var _ locking.Issuer = (*Issuer)(nil)

const maxRenew = 1000 // tokens in one request

func lockPath(resource string) string { return "/v1/resources/" + resource + "/lock" }

// Renew implements [locking.Issuer]. Many tokens are sent in several requests.
func (i *Issuer) Renew(ctx context.Context, ttl time.Duration, held []fencing.Token) []error {
	verdicts := make([]error, len(held))
	bad := locking.ValidateTTL(ttl)
	asked := make([]fencing.Token, 0, len(held))
	places := make([]int, 0, len(held)) // of what is asked
	for k, t := range held {
		if verdicts[k] = bad; bad == nil {
			verdicts[k] = validateHeld(t)
		}
		if verdicts[k] == nil {
			asked, places = append(asked, t), append(places, k)
		}
	}
	answers := make([]error, len(asked))
	for from := 0; from < len(asked); from += maxRenew {
		to := min(from+maxRenew, len(asked))
		i.renew(ctx, ttl, asked[from:to], answers[from:to])
	}
	for k, err := range answers {
		verdicts[places[k]] = err
	}
	return verdicts
}

func (i *Issuer) renew(ctx context.Context, ttl time.Duration, held []fencing.Token, verdicts []error) {
	var m wire.RenewAllReply
	_, err := i.c.exact(ctx, call{
		method: http.MethodPost, path: "/v1/locks/renew", want: http.StatusOK, into: &m, urgent: true,
		body: wire.RenewAllRequest{TTL: wire.Span(ttl), Tokens: wire.FromTokens(held)},
	})
	if err == nil && len(m.Results) != len(held) {
		err = fencing.AsUnknown(errors.New("the reply has another number of results"))
	}
	if err != nil {
		fill(verdicts, err)
		return
	}
	for k, res := range m.Results {
		switch {
		case res.Resource != held[k].Resource || int64(res.Number) != held[k].Number:
			verdicts[k] = fencing.AsUnknown(errors.New("the reply is about another token"))
		case res.Problem != nil:
			verdicts[k] = withToken(res.Problem.Err(), held[k])
		}
	}
}

func fill(verdicts []error, err error) []error {
	for k := range verdicts {
		verdicts[k] = err
	}
	return verdicts
}

// validateHeld checks a token that claims to be a hold's: it needs a grant id.
func validateHeld(t fencing.Token) error {
	return errors.Join(t.Validate(), fencing.ValidateGrant(t.Grant))
}

// Release implements [locking.Issuer].
func (i *Issuer) Release(ctx context.Context, t fencing.Token) (freed bool, err error) {
	if err := validateHeld(t); err != nil {
		return false, err
	}
	var m wire.ReleaseReply
	a, err := i.c.exact(ctx, call{
		method: http.MethodDelete, path: lockPath(t.Resource), token: &t, want: http.StatusOK, into: &m,
	})
	if a.problem != nil && a.problem.Released != nil {
		m.Released = *a.problem.Released
	}
	return m.Released, withToken(err, t)
}

// Evict implements [locking.Issuer]. It is carried out at most once, like a commit without a key.
func (i *Issuer) Evict(ctx context.Context, resource string, number int64, reason string) error {
	if err := (fencing.Token{Resource: resource, Number: number}).Validate(); err != nil {
		return err
	}
	_, err := i.c.once(ctx, call{
		method: http.MethodPost, path: lockPath(resource) + "/evict", want: http.StatusNoContent,
		body: wire.EvictRequest{Number: wire.Ptr(number), Reason: reason},
	})
	return err
}

// Status implements [locking.Issuer].
func (i *Issuer) Status(ctx context.Context, resource string) (locking.Status, error) {
	if err := fencing.ValidateResource(resource); err != nil {
		return locking.Status{}, err
	}
	var m wire.LockStatus
	_, err := i.c.exact(ctx, call{method: http.MethodGet, path: lockPath(resource), read: true, want: http.StatusOK, into: &m})
	if err != nil {
		return locking.Status{}, err
	}
	return m.Status(), nil
}

// List implements [locking.Issuer].
func (i *Issuer) List(ctx context.Context, prefix, after string, limit int) ([]locking.Status, error) {
	var m wire.LockList
	_, err := i.c.exact(ctx, call{
		method: http.MethodGet, path: "/v1/locks", query: page(prefix, after, limit), read: true, want: http.StatusOK, into: &m,
	})
	if err != nil {
		return nil, err
	}
	out := make([]locking.Status, len(m.Locks))
	for k, st := range m.Locks {
		out[k] = st.Status()
	}
	return out, nil
}

func page(prefix, after string, limit int) url.Values {
	q := url.Values{"limit": {strconv.Itoa(limit)}}
	if prefix != "" {
		q.Set("prefix", prefix)
	}
	if after != "" {
		q.Set("after", after)
	}
	return q
}

// withToken puts the caller's own token, with its grant id, back into a refusal.
func withToken(err error, tokens ...fencing.Token) error {
	if e, ok := errors.AsType[*fencing.StaleError](err); ok {
		for _, t := range tokens {
			if t.Resource == e.Token.Resource && t.Number == e.Token.Number {
				e.Token = t
			}
		}
	}
	return err
}
