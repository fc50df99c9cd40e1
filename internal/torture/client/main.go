package client

import (
	"context"
	"io"
)

// Main is the client process: it reads its Config from in, and writes its lines to out. It returns when
// in has ended and everything is closed.
func Main(ctx context.Context, in io.Reader, out io.Writer) error { panic("not written yet") }
