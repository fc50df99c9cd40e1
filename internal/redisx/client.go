// Package redisx is what the Redis backends share: which clients they accept, scripts
// that are never sent twice, and which outcome an error of the client has.
package redisx

import (
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/fencing"
)

// DefaultPrefix begins every key where no other prefix is chosen.
const DefaultPrefix = "fencegate"

// CheckClient refuses clients that would send a script again after its reply was lost,
// or that would read from replicas. The error is a [*fencing.InvalidError].
func CheckClient(c redis.UniversalClient) error {
	retries := 0
	switch c := c.(type) {
	case nil:
		return &fencing.InvalidError{What: "Redis client", Allowed: "one, not nil"}
	case *redis.Client:
		retries = c.Options().MaxRetries
	case *redis.ClusterClient:
		o := c.Options()
		retries = o.MaxRetries
		if o.ReadOnly {
			return &fencing.InvalidError{
				What: "Redis client", Got: "that reads from replicas",
				Allowed: "one without ReadOnly, RouteByLatency and RouteRandomly",
			}
		}
	case *redis.Ring:
		// When a server of a ring is down, its resources move to another one, which
		// knows neither their numbers nor their marks; later they move back.
		return &fencing.InvalidError{
			What: "Redis client", Got: "*redis.Ring",
			Allowed: "*redis.Client (also from NewFailoverClient) or *redis.ClusterClient",
		}
	}
	// The options of a client say 0, those of a cluster client -1, where retries are off.
	if retries > 0 {
		return &fencing.InvalidError{
			What: "Redis client", Got: "with MaxRetries " + strconv.Itoa(retries),
			Allowed: "MaxRetries: -1 in its options: a script that is sent again after a lost reply may run twice",
		}
	}
	return nil
}

// Prefix returns the prefix of keys that the options ask for. It has the grammar of a
// resource, so that it contains no brace and nothing that SCAN takes for a pattern.
func Prefix(option string) (string, error) {
	if option == "" {
		return DefaultPrefix, nil
	}
	if err := fencing.ValidateKey(option); err != nil {
		return "", &fencing.InvalidError{
			What: "prefix", Got: strconv.QuoteToASCII(option[:min(60, len(option))]),
			Allowed: "1 to 200 characters of A-Z a-z 0-9 . _ : @ -, the first a letter or a digit",
		}
	}
	return option, nil
}

// Key returns "<prefix>:{<resource>}:<kind>". The braces are the hash tag that keeps all
// keys of a resource in one slot of a Redis Cluster; no resource contains a brace.
func Key(prefix, resource, kind string) string {
	return prefix + ":{" + resource + "}:" + kind
}
