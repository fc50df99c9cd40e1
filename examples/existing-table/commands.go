package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/fencegate/fencegate/fencing"
)

// withPsql runs take.sql.
func withPsql(ctx context.Context, c config, t fencing.Token) error {
	return command(ctx, t, "psql", "--no-psqlrc", "--quiet", "--dbname", c.shopURL, "--file", filepath.Join(c.dir, "take.sql"))
}

// withPython runs take.py.
func withPython(ctx context.Context, c config, t fencing.Token) error {
	return command(ctx, t, c.python, filepath.Join(c.dir, "take.py"), c.shopURL)
}

// command runs a program that takes a coupon. The token is in its environment: everybody on the
// machine can read the arguments of a process.
func command(ctx context.Context, t fencing.Token, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "RESOURCE="+resource, "TOKEN=", "PGCLIENTENCODING=UTF8", "LC_ALL=C")
	if t != (fencing.Token{}) {
		cmd.Env = append(cmd.Env, "TOKEN="+t.Text())
	}
	out, err := cmd.CombinedOutput()
	if _, exited := errors.AsType[*exec.ExitError](err); !exited {
		return err
	}
	return refusal(string(out), t)
}

var (
	codes   = regexp.MustCompile(`\bZF\d{3}\b`)
	highest = regexp.MustCompile(`the mark is (\d+)`)
)

// refusal reads the SQLSTATE that the program has printed. In another language this is all there is
// to it: class ZF is the fence.
func refusal(out string, t fencing.Token) error {
	switch code := codes.FindString(out); code {
	case "ZF101", "ZF102":
		e := &fencing.StaleError{Token: t, Reason: fencing.Superseded}
		if code == "ZF102" {
			e.Reason = fencing.Retired
		}
		if m := highest.FindStringSubmatch(out); m != nil {
			e.Highest, _ = strconv.ParseInt(m[1], 10, 64)
		}
		return e
	case "ZF201":
		return errNoToken
	}
	return fmt.Errorf("%s", strings.TrimSpace(out))
}
