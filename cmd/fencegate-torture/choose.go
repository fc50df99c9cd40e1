package main

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/internal/torture"
	"github.com/fencegate/fencegate/internal/torture/fault"
	"github.com/fencegate/fencegate/internal/torture/rig"
	"github.com/fencegate/fencegate/internal/torture/workload"
)

// config is the run that the flags ask for, and what its user is to know first. It starts nothing.
func (c *runCmd) config() (config torture.Config, notes []string, err error) {
	spec := rig.Spec{
		Lock: c.Lock, Store: c.Store, Server: c.Server, Processes: c.Clients,
		RedisURL: c.RedisURL, PostgresURL: c.PostgresURL,
	}
	spec.Client.Seats, spec.Client.Groups, spec.Client.TTL = c.Seats, c.Groups, c.TTL
	spec.Client.Hold, spec.Client.Late = c.Hold, c.Late
	if spec.Gateways, err = c.gateways(); err != nil {
		return config, nil, err
	}
	if spec.OldServer, err = program("--old-server", c.OldServer); err != nil {
		return config, nil, err
	}
	if spec.OldServer != "" && spec.Gateways < 2 {
		return config, nil, usagef("--old-server is for the second gateway: want --gateways 2 with it")
	}
	if err := c.ownServers(spec.Gateways); err != nil {
		return config, nil, err
	}
	for _, n := range []struct {
		flag string
		n    int
	}{{"--clients", c.Clients}, {"--seats", c.Seats}, {"--groups", c.Groups}} {
		if n.n < 1 || n.n > 1000 {
			return config, nil, usagef("%s %d: want 1 to 1000", n.flag, n.n)
		}
	}
	for _, d := range []struct {
		flag, allowed string
		d             time.Duration
	}{{"--duration", "1s to 720h", c.Duration}, {"--ttl", "100ms or more", c.TTL}, {"--hold", "1ms to 1m", c.Hold}} {
		if d.d <= 0 { // 0 would mean the default further on
			return config, nil, usagef("%s %v: want %s", d.flag, d.d, d.allowed)
		}
	}
	config = torture.Config{Rig: spec, Duration: c.Duration, Seed: c.seed(), Allow: c.Allow}
	if config.Workloads, err = workloads(c.Workloads, spec); err != nil {
		return config, nil, err
	}
	if config.Faults, notes, err = faults(c.Faults, spec, c.Allow); err != nil {
		return config, nil, err
	}
	if err := config.Check(); err != nil {
		return config, nil, usageError{err}
	}
	if spec.RedisURL != "" || spec.PostgresURL != "" {
		notes = append(notes, "this runs on servers of yours: "+c.warning(config))
	}
	config.Args = c.again(config)
	return config, notes, nil
}

// gateways is how many there are.
func (c *runCmd) gateways() (int, error) {
	inside := c.Lock == "memory" || c.Store == "memory" || c.Store == "sqlite"
	switch {
	case c.Gateways == nil && inside:
		return 1, nil
	case c.Gateways == nil:
		return 0, nil
	case *c.Gateways < 0 || *c.Gateways > 10: // as a rig has it
		return 0, usagef("--gateways %d: want 0 to 10", *c.Gateways)
	case inside && *c.Gateways != 1:
		return 0, usagef("--gateways %d: want 1 with --lock memory, --store memory and --store sqlite, which are inside of it", *c.Gateways)
	case c.Lock == "rowlock" && *c.Gateways > 0:
		return 0, usagef("--lock rowlock: the server does not offer it; want --gateways 0, or another lock")
	}
	return *c.Gateways, nil
}

// ownServers checks the URLs of the user's servers. They are not shown: they may hold passwords.
func (c *runCmd) ownServers(gateways int) error {
	if c.RedisURL != "" {
		switch {
		case c.Lock == "redlock":
			return usagef("--redis-url is one server, and --lock redlock needs nodes of the run's own: leave it out")
		case c.Lock != "redis" && c.Store != "redis":
			return usagef("--redis-url is used by nothing: want --lock redis or --store redis with it")
		case !isURL(c.RedisURL, "redis", "rediss"):
			return usagef("--redis-url: want redis://HOST:PORT/DB, of one server")
		}
		plain, err := plainRedis(c.RedisURL)
		if err != nil {
			return usagef("--redis-url: want redis://HOST:PORT/DB, of one server")
		}
		if gateways == 0 && !plain {
			return usagef("--redis-url: without gateways clients know an address only; want redis://HOST:PORT (database 0, no user, password, TLS or parameters), or --gateways 1 or more, which take any URL")
		}
	}
	if c.PostgresURL != "" {
		switch {
		case c.Lock != "postgres" && c.Lock != "rowlock" && c.Store != "postgres":
			return usagef("--postgres-url is used by nothing: want --lock postgres, --lock rowlock or --store postgres with it")
		case !isURL(c.PostgresURL, "postgres", "postgresql"):
			return usagef("--postgres-url: want postgres://USER@HOST:PORT/NAME, of one server")
		}
	}
	return nil
}

func isURL(s string, schemes ...string) bool {
	u, err := url.Parse(s)
	return err == nil && slices.Contains(schemes, u.Scheme) && u.Hostname() != "" && !strings.Contains(u.Host, ",")
}

// plainRedis says whether the address says all that a URL says. The error does not show the URL.
func plainRedis(raw string) (bool, error) {
	o, err := redis.ParseURL(raw)
	if err != nil {
		return false, errors.New("not a Redis URL")
	}
	u, err := url.Parse(raw)
	if err != nil {
		return false, errors.New("not a URL")
	}
	return o.Username == "" && o.Password == "" && o.DB == 0 && o.TLSConfig == nil && u.RawQuery == "", nil
}

// workloads are those that were asked for; nil: all that fit.
func workloads(asked []string, spec rig.Spec) ([]string, error) {
	if len(asked) == 1 && asked[0] == "all" {
		return nil, nil
	}
	if len(asked) == 0 {
		asked = []string{""} // which is none of them
	}
	for i, name := range asked {
		if _, ok := workload.Named(name); !ok {
			var all []string
			for _, w := range workload.All() {
				all = append(all, w.Name())
			}
			return nil, usagef("--workloads %q: want all, or some of %s", name, strings.Join(all, ", "))
		}
		if name == "table" && spec.Store != "postgres" {
			return nil, usagef("--workloads table: its tables are in Postgres; want --store postgres with it")
		}
		if slices.Contains(asked[:i], name) {
			return nil, usagef("--workloads: %s is there twice", name)
		}
	}
	return asked, nil
}

// faults are those that were asked for, checked, or with all those that fit and may be made. What "all"
// leaves out on servers of the user's own is noted.
func faults(asked []string, spec rig.Spec, allow bool) (names, notes []string, err error) {
	own := spec.RedisURL != "" || spec.PostgresURL != ""
	if len(asked) == 1 && asked[0] == "none" {
		return nil, nil, nil
	}
	if len(asked) == 1 && asked[0] == "all" {
		var left []string
		for _, f := range fault.All() {
			switch {
			case !f.Fits(spec):
			case own && f.Own, own && f.Destroys && !allow:
				left = append(left, f.Name)
			default:
				names = append(names, f.Name)
			}
		}
		if len(left) > 0 {
			notes = append(notes, "left out on servers of yours, for want of --allow or of private servers: "+strings.Join(left, ", "))
		}
		return names, notes, nil
	}
	if len(asked) == 0 {
		asked = []string{""} // which is none of them
	}
	for i, name := range asked {
		f, ok := fault.Named(name)
		switch {
		case !ok:
			return nil, nil, usagef("--faults %q: want all, none, or some of those that \"fencegate-torture faults\" lists%s", name, near(name))
		case slices.Contains(asked[:i], name):
			return nil, nil, usagef("--faults: %s is there twice", name)
		case !f.Fits(spec):
			return nil, nil, usagef("--faults %s does not fit --lock %s --store %s --gateways %d; it fits %s", name, spec.Lock, spec.Store, spec.Gateways, fitting(f))
		case own && f.Own:
			return nil, nil, usagef("--faults %s needs private servers: leave out --redis-url and --postgres-url", name)
		case own && f.Destroys && !allow:
			return nil, nil, usagef("--faults %s can destroy data on your server (%s): it needs --allow", name, f.What)
		}
	}
	return asked, nil, nil
}

// near names faults that somebody may have meant.
func near(name string) string {
	var list []string
	for _, f := range fault.All() {
		if name != "" && (strings.Contains(f.Name, name) || strings.Contains(name, f.Name)) {
			list = append(list, f.Name)
		}
	}
	if len(list) == 0 {
		return ""
	}
	return ", such as " + strings.Join(list, ", ")
}

// fitting names where a fault fits, of what a proof goes through.
func fitting(f fault.Fault) string {
	rigs := rigsOf(f)
	if len(rigs) == 0 {
		return "none of the usual pairs"
	}
	return strings.Join(rigs, "; ")
}

// warning is what happens to servers of the user's own.
func (c *runCmd) warning(config torture.Config) string {
	var parts []string
	if c.RedisURL != "" {
		parts = append(parts, "on the Redis at "+host(c.RedisURL)+" keys that begin with fencegate:{torture- and a random number")
	}
	if c.PostgresURL != "" {
		parts = append(parts, "on the Postgres at "+host(c.PostgresURL)+" a database called fencegate_torture_ and ten random letters and digits, which is made for the run")
	}
	text := strings.Join(parts, ", and ") + "; what the run makes it removes at the end"
	var destroying []string
	for _, name := range config.Faults {
		if f, ok := fault.Named(name); ok && f.Destroys {
			destroying = append(destroying, name)
		}
	}
	if len(destroying) > 0 {
		text += "; WARNING: --allow is given, and these faults can destroy data of others there: " + strings.Join(destroying, ", ")
	}
	return text
}

func host(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "its address"
	}
	return u.Host
}

// again is the command that repeats a run. Passwords are not in it.
func (c *runCmd) again(config torture.Config) []string {
	args := []string{"fencegate-torture", "run", "--lock", c.Lock, "--store", c.Store}
	add := func(flag, value string) { args = append(args, flag, value) }
	if config.Rig.Gateways > 0 {
		add("--gateways", strconv.Itoa(config.Rig.Gateways))
	}
	if len(config.Workloads) > 0 {
		add("--workloads", strings.Join(config.Workloads, ","))
	}
	if len(config.Faults) > 0 {
		add("--faults", strings.Join(config.Faults, ","))
	} else {
		add("--faults", "none")
	}
	for _, n := range []struct {
		flag       string
		n, usually int
	}{{"--clients", c.Clients, torture.DefaultProcesses}, {"--seats", c.Seats, torture.DefaultSeats}, {"--groups", c.Groups, torture.DefaultGroups}} {
		if n.n != n.usually {
			add(n.flag, strconv.Itoa(n.n))
		}
	}
	if c.OldServer != "" {
		add("--old-server", c.OldServer)
	}
	if c.TTL != torture.DefaultTTL {
		add("--ttl", c.TTL.String())
	}
	if c.Hold != torture.DefaultHold {
		add("--hold", c.Hold.String())
	}
	if c.Late != torture.DefaultLate {
		add("--late", fmt.Sprint(c.Late))
	}
	add("--duration", c.Duration.String())
	add("--seed", fmt.Sprint(config.Seed))
	for _, u := range []struct{ flag, url string }{{"--redis-url", c.RedisURL}, {"--postgres-url", c.PostgresURL}} {
		if u.url != "" {
			add(u.flag, withoutPassword(u.url))
		}
	}
	if c.Allow {
		args = append(args, "--allow")
	}
	return args
}

// withoutPassword keeps a URL's scheme, user, host and path.
func withoutPassword(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "URL"
	}
	u.RawQuery = ""
	if u.User != nil {
		u.User = url.User(u.User.Username())
	}
	return u.String()
}
