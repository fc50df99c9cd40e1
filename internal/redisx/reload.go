package redisx

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"
)

// reload makes a cluster client ask once more which server has which slots, after a call that
// no server answered, or one that had lost its part. By itself it asks when a server sends
// it elsewhere, and once in ClusterStateReloadInterval, a minute: a replica takes over in
// seconds. Calls that fail together make one question.
func reload(ctx context.Context, c redis.UniversalClient, err error) {
	cluster, ok := c.(*redis.ClusterClient)
	if !ok || err == nil {
		return
	}
	_, answered := errors.AsType[redis.Error](err)
	if answered && !redis.HasErrorPrefix(err, "CLUSTERDOWN") {
		return
	}
	cluster.ReloadState(ctx) // it does not wait, and does not end with ctx
}
