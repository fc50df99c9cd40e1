package torture

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/torture/fault"
	"github.com/fencegate/fencegate/internal/torture/rig"
	"github.com/fencegate/fencegate/internal/torture/workload"
	"github.com/fencegate/fencegate/locking"
)

// What a run is made of where its Config does not say.
const (
	DefaultDuration  = 30 * time.Second
	DefaultProcesses = 4
	DefaultSeats     = 12
	DefaultGroups    = 12
	DefaultTTL       = 400 * time.Millisecond
	DefaultWait      = 5 * time.Second
	DefaultCall      = 3 * time.Second
	DefaultHold      = 20 * time.Millisecond
	DefaultLate      = 0.5 // given by the callers: 0 is a share, too
	DefaultOdd       = 0.15
)

// Check says what is wrong with a Config, before anything is started: a *fencing.InvalidError.
func (c Config) Check() error {
	c.Faults, c.Workloads = slices.Clone(c.Faults), slices.Clone(c.Workloads)
	return (&run{Config: c, prefix: "torture"}).settle()
}

// settle checks a Config, fills in what it leaves out, and asks of the rig what the faults need.
func (r *run) settle() error {
	s := &r.Rig
	if err := oneOf("lock", s.Lock, "memory", "redis", "redlock", "postgres", "rowlock"); err != nil {
		return err
	}
	if err := oneOf("store", s.Store, "memory", "sqlite", "redis", "postgres"); err != nil {
		return err
	}
	if inside := s.Lock == "memory" || s.Store == "memory" || s.Store == "sqlite"; inside && s.Gateways != 1 {
		return &fencing.InvalidError{What: "number of gateways", Got: fmt.Sprint(s.Gateways), Allowed: "1 where the lock or the store is inside of it (memory, sqlite)"}
	}
	r.Duration = cmp.Or(r.Duration, DefaultDuration)
	s.Processes = cmp.Or(s.Processes, DefaultProcesses)
	c := &s.Client
	c.Seats = cmp.Or(c.Seats, DefaultSeats)
	c.Groups = cmp.Or(c.Groups, DefaultGroups)
	c.TTL = cmp.Or(c.TTL, DefaultTTL)
	c.Wait = cmp.Or(c.Wait, DefaultWait)
	c.Call = cmp.Or(c.Call, DefaultCall)
	c.Hold = cmp.Or(c.Hold, DefaultHold)
	c.Odd = cmp.Or(c.Odd, DefaultOdd)
	c.Seed, c.Prefix = r.Seed, r.prefix
	if err := locking.ValidateTTL(c.TTL); err != nil {
		return err
	}
	for what, n := range map[string]int{"number of clients": s.Processes, "number of seats": c.Seats, "number of groups": c.Groups} {
		if n < 1 || n > 1000 {
			return &fencing.InvalidError{What: what, Got: fmt.Sprint(n), Allowed: "1 to 1,000"}
		}
	}
	if r.Duration < time.Second || r.Duration > 30*24*time.Hour {
		return &fencing.InvalidError{What: "duration", Got: r.Duration.String(), Allowed: "1s to 720h"}
	}
	if c.Hold < time.Millisecond || c.Hold > time.Minute {
		return &fencing.InvalidError{What: "hold", Got: c.Hold.String(), Allowed: "1ms to 1m"}
	}
	if !(c.Late >= 0 && c.Late <= 1) {
		return &fencing.InvalidError{What: "share of late turns", Got: fmt.Sprint(c.Late), Allowed: "0 to 1"}
	}
	if err := r.chooseWorkloads(); err != nil {
		return err
	}
	return r.chooseFaults()
}

func (r *run) chooseWorkloads() error {
	if len(r.Workloads) == 0 {
		for _, w := range workload.All() {
			if w.Name() != "table" || r.Rig.Store == "postgres" {
				r.Workloads = append(r.Workloads, w.Name())
			}
		}
	}
	for _, name := range r.Workloads {
		w, ok := workload.Named(name)
		if !ok {
			var all []string
			for _, w := range workload.All() {
				all = append(all, w.Name())
			}
			return &fencing.InvalidError{What: "workload", Got: name, Allowed: strings.Join(all, ", ")}
		}
		if name == "table" && r.Rig.Store != "postgres" {
			return &fencing.InvalidError{What: "workload", Got: name, Allowed: "over a store in Postgres only"}
		}
		r.workloads = append(r.workloads, w)
	}
	if seats := r.Rig.Processes * r.Rig.Client.Seats; seats < len(r.Workloads) {
		return &fencing.InvalidError{What: "number of seats in all", Got: fmt.Sprint(seats), Allowed: fmt.Sprintf("at least one for each of %d workloads", len(r.Workloads))}
	}
	r.Rig.Client.Workloads = r.Workloads
	return nil
}

func (r *run) chooseFaults() error {
	own := r.Rig.RedisURL != "" || r.Rig.PostgresURL != ""
	for _, name := range r.Faults {
		f, ok := fault.Named(name)
		switch {
		case !ok:
			return &fencing.InvalidError{What: "fault", Got: name, Allowed: "those that `fencegate-torture faults` lists"}
		case !f.Fits(r.Rig):
			return &fencing.InvalidError{What: "fault", Got: name, Allowed: fmt.Sprintf("one that makes sense for lock %s and store %s%s", r.Rig.Lock, r.Rig.Store, gatewaysText(r.Rig))}
		case own && f.Own:
			return &fencing.InvalidError{What: "fault", Got: name, Allowed: "one that needs no server started by this program"}
		case own && f.Destroys && !r.Allow:
			return &fencing.InvalidError{What: "fault", Got: name, Allowed: "with --allow only: it can destroy data of your server (" + f.What + ")"}
		}
		r.faults = append(r.faults, f)
	}
	for _, f := range r.faults {
		if f.Prepare != nil {
			f.Prepare(&r.Rig)
		}
	}
	return nil
}

func gatewaysText(s rig.Spec) string {
	if s.Gateways == 0 {
		return ""
	}
	return fmt.Sprintf(" with %d gateways", s.Gateways)
}

func oneOf(what, got string, allowed ...string) error {
	if slices.Contains(allowed, got) {
		return nil
	}
	return &fencing.InvalidError{What: what, Got: got, Allowed: strings.Join(allowed, ", ")}
}
