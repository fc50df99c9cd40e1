package fault

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

const (
	preloadName    = "LD_PRELOAD="
	compileTimeout = 30 * time.Second
)

// library compiles a library that servers load before all others, and returns its path, NAME.so in a directory that
// ends with this process. A *VoidError says why that cannot be done here.
func library(name string, source []byte) (path string, err error) {
	if runtime.GOOS != "linux" {
		return "", Void("it takes a library for Linux, and this is %s", runtime.GOOS)
	}
	cc, err := exec.LookPath("cc")
	if err != nil {
		return "", Void("it takes a library that a C compiler makes: %v", err)
	}
	dir, err := processDir()
	if err != nil {
		return "", err
	}
	text, path := filepath.Join(dir, name+".c"), filepath.Join(dir, name+".so")
	if err := os.WriteFile(text, source, 0o600); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), compileTimeout)
	defer cancel()
	if out, err := exec.CommandContext(ctx, cc, "-O2", "-shared", "-fPIC", "-o", path, text).CombinedOutput(); err != nil {
		return "", Void("%s: %v: %s", cc, err, out)
	}
	// The servers run as another user, perhaps.
	return path, errors.Join(os.Chmod(dir, 0o711), os.Chmod(path, 0o755)) //nolint:gosec // so that they can read it
}

// preload adds a library to what servers with this environment load before all others.
func preload(env []string, library string) []string {
	env = slices.Clone(env)
	for i, e := range slices.Backward(env) {
		if strings.HasPrefix(e, preloadName) {
			env[i] = e + ":" + library
			return env
		}
	}
	return append(env, preloadName+library)
}
