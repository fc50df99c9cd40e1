package http

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	nethttp "net/http"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/fencegate/fencegate/gateway/apikey"
	"github.com/fencegate/fencegate/internal/bench/rig"
)

// child is a server in a process of its own.
type child struct {
	ready
	pid int
}

// start starts this program once more, as a server. It ends with h, or with this process.
func start(ctx context.Context, h *rig.Host, s setup) (child, error) {
	program, err := os.Executable()
	if err != nil {
		return child{}, err
	}
	text, err := json.Marshal(s)
	if err != nil {
		return child{}, err
	}
	var problems bytes.Buffer
	cmd := exec.CommandContext(context.WithoutCancel(ctx), program, ServerArgument, string(text))
	cmd.Stderr = &problems
	in, err := cmd.StdinPipe()
	if err != nil {
		return child{}, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return child{}, err
	}
	if err := cmd.Start(); err != nil {
		return child{}, err
	}
	h.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	stop := context.AfterFunc(ctx, func() { _ = in.Close() }) // also while it is filling
	h.Cleanup(func() { stop() })
	c := child{pid: cmd.Process.Pid}
	if err := json.NewDecoder(out).Decode(&c.ready); err != nil {
		_ = in.Close()
		_ = cmd.Wait()
		return child{}, fmt.Errorf("the server did not start: %w: %s", err, bytes.TrimSpace(problems.Bytes()))
	}
	return c, nil
}

// counts asks the server's process, on a connection that does not stay.
func (c child) counts(ctx context.Context) (n counts, err error) {
	r, err := nethttp.NewRequestWithContext(ctx, nethttp.MethodGet, "http://"+c.Control+"/counts", nil)
	if err != nil {
		return n, err
	}
	r.Close = true
	reply, err := nethttp.DefaultClient.Do(r)
	if err != nil {
		return n, err
	}
	defer reply.Body.Close()
	return n, json.NewDecoder(reply.Body).Decode(&n)
}

// startGateway starts a gateway, and returns a key that may do everything.
func startGateway(ctx context.Context, h *rig.Host, s setup) (of child, key string, err error) {
	dir, err := os.MkdirTemp("", "fencegate-bench")
	if err != nil {
		return of, "", err
	}
	h.Cleanup(func() { _ = os.RemoveAll(dir) })
	s.Dir, s.Keys = dir, filepath.Join(dir, "keys")
	everything := apikey.Entry{Key: apikey.Key{Scopes: apikey.All}}
	if _, key, err = apikey.Add(ctx, s.Keys, everything); err != nil {
		return of, "", err
	}
	of, err = start(ctx, h, s)
	return of, key, err
}
