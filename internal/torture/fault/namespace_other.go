//go:build !linux

package fault

import (
	"context"
	"runtime"
)

// namespace is a network namespace, of which other systems than Linux have none.
type namespace struct{}

func newNamespace(context.Context) (*namespace, error) {
	return nil, Void("there are no network namespaces on %s", runtime.GOOS)
}

func (*namespace) do(f func() error) error { return f() }

func (*namespace) filter(context.Context, string) error { return nil }

func (*namespace) close() {}
