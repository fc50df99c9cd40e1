package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/alecthomas/kong"

	"github.com/fencegate/fencegate/fencing"
)

// settle checks what the flags say together, and fills in what hangs on others. Nothing is
// opened.
func (c *serveCmd) settle(k *kong.Context) (err error) {
	if err := c.addresses(); err != nil {
		return err
	}
	if err := c.ranges(); err != nil {
		return err
	}
	given := c.backendFlags
	if c.backendFlags, err = c.settled(); err != nil {
		return err
	}
	if len(c.RedisURL) > 1 { // nobody takes a lock in memory for that
		return usageError{fmt.Errorf("several --redis-url are the nodes of --lock redlock, but --lock is %s", c.Lock)}
	}
	if err := c.check(); err != nil {
		return err
	}
	if err := given.unused(k); err != nil {
		return err
	}
	if c.SqlitePath == "" {
		c.SqlitePath = sqliteDefault
	}
	c.keyRetention = c.KeyRetention
	return nil
}

// unused refuses a flag on the command line that has no effect: whoever gave it believes that the
// data is there. Variables may be of an environment that is shared.
func (f backendFlags) unused(k *kong.Context) error {
	redlock := f.Lock == "redlock" || f.Lock == "redis" && len(f.RedisURL) > 1
	for _, u := range []struct {
		flag, purpose string
		used          bool
	}{
		{"redis-url", "--lock redis and --store redis", f.Lock == "redis" || f.Store == "redis" || redlock && len(f.RedisURL) > 1},
		{"postgres-url", "--lock postgres and --store postgres", f.Lock == "postgres" || f.Store == "postgres"},
		{"sqlite-path", "--store sqlite", f.Store == "sqlite"},
		{"redlock-urls", "--lock redlock", redlock},
		{"redlock-max-ttl", "--lock redlock", redlock},
		{"redlock-few-nodes", "--lock redlock", redlock},
		{"redlock-node-timeout", "--lock redlock", redlock},
	} {
		if flag := (targetFlags{}).given(k, []string{u.flag}); flag != "" && !u.used {
			return usageError{fmt.Errorf("%s is for %s, and would not be used: --lock is %s, --store is %s", flag, u.purpose, f.Lock, f.Store)}
		}
	}
	return nil
}

// addresses checks who reaches the addresses, and how.
func (c *serveCmd) addresses() error {
	for _, l := range []struct{ flag, addr string }{{"--listen", c.Listen}, {"--admin-listen", c.AdminListen}} {
		if l.addr == "" && l.flag == "--admin-listen" {
			continue
		}
		local, err := loopback(l.addr)
		if err != nil {
			return usageError{fmt.Errorf("%s %q: want HOST:PORT, the port a number up to 65535", l.flag, l.addr)}
		}
		if !local && c.Keys == "" && !c.Insecure {
			return usageError{fmt.Errorf("%s %s is reached from elsewhere: add --keys FILE (fencegate keys writes it), or --insecure to let everybody do everything", l.flag, l.addr)}
		}
	}
	if (c.TLSCert == "") != (c.TLSKey == "") {
		return usageError{errors.New("--tls-cert and --tls-key belong together")}
	}
	return nil
}

// clientWait is what a request of client.Client waits for a lock (client.Options.MaxWait).
const clientWait = 30 * time.Second

// ranges checks the numbers. Those that belong to a part of the gateway have their upper ends there;
// but a 0, which to the parts is their default, is no limit that anybody could mean.
func (c *serveCmd) ranges() error {
	for _, d := range []struct {
		flag        string
		v           time.Duration
		least, most time.Duration
	}{
		{"--drain-delay", c.DrainDelay, 0, time.Hour},
		{"--stop-timeout", c.StopTimeout, 0, time.Hour},
		{"--max-wait", c.MaxWait, clientWait, time.Hour},
		{"--request-timeout", c.RequestTimeout, 10 * time.Millisecond, 10 * time.Minute},
		{"--read-timeout", c.ReadTimeout, 10 * time.Millisecond, 10 * time.Minute},
		{"--idle-timeout", c.IdleTimeout, time.Second, time.Hour},
		{"--key-retention", c.KeyRetention, time.Millisecond, 366 * 24 * time.Hour},
	} {
		if d.v < d.least || d.v > d.most {
			return usageError{&fencing.InvalidError{What: d.flag, Got: d.v.String(), Allowed: d.least.String() + " to " + d.most.String()}}
		}
	}
	for _, n := range []struct {
		flag string
		zero bool
	}{
		{"--events", c.Events == 0},
		{"--max-in-flight", c.MaxInFlight == 0},
		{"--max-waiting", c.MaxWaiting == 0},
		{"--max-waiting-per-key", c.MaxWaitingPerKey != nil && *c.MaxWaitingPerKey == 0},
		{"--max-waiters", c.MaxWaiters == 0},
		{"--max-streams", c.MaxStreams == 0},
		{"--max-bodies", c.MaxBodies == 0},
		{"--max-body", c.MaxBody == 0},
		{"--max-value", c.MaxValue == 0},
		{"--max-reply", c.MaxReply == 0},
		{"--max-ops", c.MaxOps == 0},
	} {
		if n.zero {
			return usageError{&fencing.InvalidError{What: n.flag, Got: "0", Allowed: "more than 0; without the flag it is the default"}}
		}
	}
	if c.MaxConnections < 1 || c.MaxConnections > 1_000_000 {
		return usageError{&fencing.InvalidError{What: "--max-connections", Allowed: "1 to 1000000"}}
	}
	return nil
}

// flagged names the flag of a value that is outside its range, and makes it wrong usage. The flags
// are called as the fields of the Options, but for one.
func flagged(err error) error {
	bad, ok := errors.AsType[*fencing.InvalidError](err)
	if !ok {
		return err
	}
	what := bad.What
	if what == "Timeout" {
		what = "RequestTimeout"
	}
	flag := "-"
	for _, r := range what {
		if unicode.IsUpper(r) {
			flag += "-"
		}
		flag += string(unicode.ToLower(r))
	}
	named := *bad
	named.What = flag
	return usageError{&named}
}

// loopback reports whether an address can be reached from this machine only. Of a name, but
// localhost, nobody knows where it leads.
func loopback(addr string) (bool, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return false, err
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return false, err
	}
	if strings.EqualFold(host, "localhost") {
		return true, nil
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback(), nil
}
