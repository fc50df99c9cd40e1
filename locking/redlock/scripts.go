package redlock

import (
	_ "embed"

	"github.com/fencegate/fencegate/internal/redisx"
)

var (
	//go:embed common.lua
	commonLua string
	//go:embed wake.lua
	wakeLua string
	//go:embed grant.lua
	grantLua string
	//go:embed confirm.lua
	confirmLua string
	//go:embed abort.lua
	abortLua string
	//go:embed renew.lua
	renewLua string
	//go:embed release.lua
	releaseLua string
	//go:embed status.lua
	statusLua string
	//go:embed node.lua
	nodeLua string
	//go:embed mark.lua
	markLua string
	//go:embed counter.lua
	counterLua string
	//go:embed seed.lua
	seedLua string
)

var (
	grant   = redisx.NewScript(commonLua, grantLua)
	confirm = redisx.NewScript(commonLua, confirmLua)
	abort   = redisx.NewScript(commonLua, wakeLua, abortLua)
	renew   = redisx.NewScript(commonLua, renewLua)
	release = redisx.NewScript(commonLua, wakeLua, releaseLua)
	status  = redisx.NewReadScript(commonLua, statusLua)
	look    = redisx.NewReadScript(commonLua, nodeLua)
	mark    = redisx.NewScript(markLua)
	counter = redisx.NewScript(commonLua, counterLua)
	seed    = redisx.NewScript(commonLua, seedLua)
)

// call makes a call on a resource. All but abort and grant have these keys.
func (b *Backend) call(resource string, args ...any) redisx.Call {
	return redisx.Call{
		Keys: []string{b.markerKey(), redisx.Key(b.prefix, resource, "lock"), redisx.Key(b.prefix, resource, "counter")},
		Args: append([]any{b.terms()}, args...),
	}
}

// attemptCall is call with the tombstone of an attempt.
func (b *Backend) attemptCall(resource, attempt string, args ...any) redisx.Call {
	c := b.call(resource, args...)
	c.Keys = append(c.Keys, redisx.Key(b.prefix, resource, "ended:"+attempt))
	return c
}

// The name is outside the grammar of a resource.
func (b *Backend) markerKey() string { return redisx.Key(b.prefix, "-node", "marker") }

// terms are what every process has to agree on with the markers.
func (b *Backend) terms() string { return millis(b.o.MaxTTL) + ":" + decimal(int64(len(b.nodes))) }
