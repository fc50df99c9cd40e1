//go:build unix

package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// TestCompletionScripts lets each shell that is here read its script.
func TestCompletionScripts(t *testing.T) {
	t.Parallel()
	for shell, check := range map[string][]string{"bash": {"-n"}, "zsh": {"-n"}, "fish": {"--no-execute"}} {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			var out, errs bytes.Buffer
			if status := run([]string{"completion", shell}, strings.NewReader(""), &out, &errs); status != exitOK || errs.Len() > 0 {
				t.Fatalf("exit status %d: %s", status, errs.String())
			}
			if self, err := os.Executable(); err != nil || !strings.Contains(out.String(), self) {
				t.Errorf("the script does not name this program: %s", out.String())
			}
			path, err := exec.LookPath(shell)
			if err != nil {
				return // it is not installed, and may be missing
			}
			cmd := exec.CommandContext(t.Context(), path, check...)
			cmd.Stdin = &out
			if msg, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, msg)
			}
		})
	}
}

// TestCompletes asks as a shell does: commands, flags, and the values of flags.
func TestCompletes(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		line string
		want []string
		not  string
	}{
		{"fencegate rec", []string{"records"}, "lock"},
		{"fencegate records ", []string{"get", "put", "delete", "add", "list"}, "acquire"},
		{"fencegate exec --no", []string{"--nonblock"}, "--wait"},
		{"fencegate lock acquire --output ", []string{"text", "json"}, "--wait"},
		{"fencegate lock acquire --lock ", []string{"redis", "redlock", "postgres", "memory"}, "json"},
		{"fencegate completion ", []string{"bash", "zsh", "fish"}, "json"},
		{"fencegate ", []string{"serve", "exec", "watch"}, "demo-actor"},
	} {
		cmd := command(t)
		cmd.Env = append(os.Environ(), "COMP_LINE="+row.line)
		out, err := cmd.Output()
		got := strings.Fields(string(out))
		if err != nil || slices.Contains(got, row.not) {
			t.Errorf("%q: %v, %v", row.line, got, err)
		}
		for _, want := range row.want {
			if !slices.Contains(got, want) {
				t.Errorf("%q: %v lacks %q", row.line, got, want)
			}
		}
	}
}

// TestCompletesWhenAsked leaves COMP_LINE in the environment: commands run all the same. Bash asks
// with three arguments, of which the program's name is the first.
func TestCompletesWhenAsked(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{"fencegate devel": {"version", "-o", "text"}, "records\n": {"./fencegate", "rec", "fencegate"}} {
		cmd := command(t, args...)
		cmd.Env = append(os.Environ(), "COMP_LINE=fencegate rec")
		if out, err := cmd.Output(); err != nil || !strings.HasPrefix(string(out), want) {
			t.Errorf("%q: %s, %v, want %q", args, out, err, want)
		}
	}
}

// TestEveryFlagHasAVariable looks at the flags of all commands.
func TestEveryFlagHasAVariable(t *testing.T) {
	t.Parallel()
	parser := kong.Must(&cli{}, kong.Vars{"pause": "signal"}, kong.Writers(io.Discard, io.Discard))
	flags := 0
	err := kong.Visit(parser.Model, func(node kong.Visitable, next kong.Next) error {
		if f, ok := node.(*kong.Flag); ok && f.Name != "help" && !f.Hidden {
			if flags++; len(f.Envs) == 0 {
				t.Errorf("--%s has no variable: %s", f.Name, f.Help)
			}
		}
		return next(nil)
	})
	if err != nil || flags < 100 {
		t.Errorf("%d flags, %v", flags, err)
	}
}
