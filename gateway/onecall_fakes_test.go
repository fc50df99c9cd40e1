package gateway_test

import (
	"context"
	"strings"
	"sync/atomic"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/locking"
)

// grantCounter counts what an issuer is asked for.
type grantCounter struct {
	grants, granted, releases atomic.Int64
}

func (c *grantCounter) of(i locking.Issuer) locking.Issuer { return &countingIssuer{i, c} }

type countingIssuer struct {
	locking.Issuer
	n *grantCounter
}

func (i *countingIssuer) Grant(ctx context.Context, r locking.Request) (locking.Granted, error) {
	i.n.grants.Add(1)
	g, err := i.Issuer.Grant(ctx, r)
	if err == nil {
		i.n.granted.Add(1)
	}
	return g, err
}

func (i *countingIssuer) Release(ctx context.Context, t fencing.Token) (bool, error) {
	i.n.releases.Add(1)
	return i.Issuer.Release(ctx, t)
}

// containsOnlyRequests reports whether a log has no errors.
func containsOnlyRequests(s string) bool { return !strings.Contains(s, `"level":"ERROR"`) }
