package fault_test

import (
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/internal/torture/fault"
	"github.com/fencegate/fencegate/internal/torture/history"
	"github.com/fencegate/fencegate/internal/torture/rig"
)

// rigs are those that the runs use.
func rigs() map[string]rig.Spec {
	return map[string]rig.Spec{
		"redis+postgres":                {Lock: "redis", Store: "postgres"},
		"postgres+postgres":             {Lock: "postgres", Store: "postgres"},
		"redis+redis":                   {Lock: "redis", Store: "redis"},
		"redlock+postgres":              {Lock: "redlock", Store: "postgres"},
		"rowlock+postgres":              {Lock: "rowlock", Store: "postgres"},
		"postgres+redis":                {Lock: "postgres", Store: "redis"},
		"memory+sqlite, 1 gateway":      {Lock: "memory", Store: "sqlite", Gateways: 1},
		"redis+postgres, 2 gateways":    {Lock: "redis", Store: "postgres", Gateways: 2},
		"postgres+postgres, 2 gateways": {Lock: "postgres", Store: "postgres", Gateways: 2},
	}
}

var nameForm = regexp.MustCompile(`^[a-z]+(-[a-z]+)+$|^herd$|^forged$`)

func TestAll(t *testing.T) {
	t.Parallel()
	all := fault.All()
	if len(all) < 40 {
		t.Errorf("there are %d kinds of faults, want at least 40", len(all))
	}
	seen, cells := map[string]bool{}, 0
	for _, f := range all {
		t.Run(f.Name, func(t *testing.T) {
			t.Parallel()
			checkFields(t, f)
			if got, ok := fault.Named(f.Name); !ok || got.Name != f.Name {
				t.Errorf("Named(%q) = %q, %v", f.Name, got.Name, ok)
			}
		})
		if seen[f.Name] {
			t.Errorf("%s is there twice", f.Name)
		}
		seen[f.Name] = true
		fits := 0
		for _, s := range rigs() {
			if f.Fits != nil && f.Fits(s) {
				fits++
			}
		}
		if fits == 0 {
			t.Errorf("%s fits none of the rigs", f.Name)
		}
		t.Logf("%-28s fits %d of %d rigs", f.Name, fits, len(rigs()))
		cells += fits
	}
	t.Logf("%d faults, %d cells", len(all), cells)
	if _, ok := fault.Named("no-such-fault"); ok {
		t.Error("Named knows a fault that there is not")
	}
}

func checkFields(t *testing.T, f fault.Fault) {
	t.Helper()
	if !nameForm.MatchString(f.Name) {
		t.Errorf("the name %q: want words with hyphens between", f.Name)
	}
	if f.What == "" || f.Expect == "" || f.Fits == nil || f.Inject == nil || f.Hold <= 0 {
		t.Errorf("something is missing: What %q, Expect %q, Fits %t, Inject %t, Hold %v", f.What, f.Expect, f.Fits != nil, f.Inject != nil, f.Hold)
	}
	if strings.HasSuffix(f.What, ".") || strings.HasSuffix(f.Expect, ".") {
		t.Error("What and Expect stand in a table: want no full stop")
	}
	if slices.Contains(f.Loses, history.LosesNothing) {
		t.Error("who loses nothing has no Loses")
	}
	if slices.Contains(f.Loses, history.LosesData) && !f.Destroys && !f.Own {
		t.Error("it loses data, and would do so on a server of the user's own without leave")
	}
}

// TestPrepare: what a fault asks of a rig is always the same, and is asked for once, whatever other faults ask.
func TestPrepare(t *testing.T) {
	t.Parallel()
	all := rigs()
	for _, name := range []string{"redis+postgres", "redlock+postgres", "rowlock+postgres", "memory+sqlite, 1 gateway", "postgres+postgres, 2 gateways"} {
		spec := all[name]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			together := spec
			for _, f := range fault.All() {
				if f.Prepare == nil || !f.Fits(spec) {
					continue
				}
				one, other := spec, spec
				f.Prepare(&one)
				f.Prepare(&other)
				if !reflect.DeepEqual(plain(one), plain(other)) {
					t.Errorf("%s: once it asks for %+v, once for %+v", f.Name, one, other)
				}
				f.Prepare(&one)
				if !reflect.DeepEqual(plain(one), plain(other)) {
					t.Errorf("%s: asked a second time it asks for %+v, before for %+v", f.Name, one, other)
				}
				f.Prepare(&together)
			}
			before := plain(together)
			for _, f := range fault.All() {
				if f.Prepare != nil && f.Fits(spec) {
					f.Prepare(&together)
				}
			}
			if !reflect.DeepEqual(plain(together), before) {
				t.Errorf("a second round of all changed %+v to %+v", before, together)
			}
		})
	}
}

var paths = regexp.MustCompile(`/[^:=\s]+/`)

// plain is a spec without the directories in its environments, which are new each time.
func plain(s rig.Spec) rig.Spec {
	for _, env := range []*[]string{&s.RedisEnv, &s.PostgresEnv} {
		var list []string
		for _, e := range *env {
			list = append(list, paths.ReplaceAllStringFunc(e, func(string) string { return string(filepath.Separator) }))
		}
		*env = list
	}
	return s
}
