package client

import "github.com/fencegate/fencegate/gateway/wire"

// What a gateway says at its door, for errors.Is. The first two are refused; the others failed:
// surely nothing was written, and the client has repeated the request as often as it may.
var (
	// ErrUnauthorized: the gateway wants an API key, or does not know this one.
	ErrUnauthorized error = wire.NewError(wire.SlugUnauthorized, "")
	// ErrForbidden: the key lacks the scope, or does not cover the resource.
	ErrForbidden error = wire.NewError(wire.SlugForbidden, "")
	// ErrRateLimited: the key, or this machine, makes more requests than it may.
	ErrRateLimited error = wire.NewError(wire.SlugRateLimited, "")
	// ErrOverloaded: the gateway, or each of its replicas, has too much to do.
	ErrOverloaded error = wire.NewError(wire.SlugOverloaded, "")
	// ErrDraining: the gateway, or each of its replicas, is about to stop.
	ErrDraining error = wire.NewError(wire.SlugDraining, "")
)
