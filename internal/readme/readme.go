// Package readme runs what a page tells its readers to run, and returns what was printed. It is for tests: a page that is
// run cannot say what is no longer so.
package readme

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"
)

// Session is a block of commands, and what the page says that they print; empty for nothing.
type Session struct{ Script, Output string }

var fenced = regexp.MustCompile("(?ms)^```([a-z]+)\n(.*?)^```$")

// Blocks returns the n blocks of a page in a language, in their order.
func Blocks(t testing.TB, path string, n int, language string) []string {
	t.Helper()
	var list []string
	for _, m := range find(t, path) {
		if m[1] == language {
			list = append(list, m[2])
		}
	}
	if len(list) != n {
		t.Fatalf("%s has %d blocks of %s, want %d", path, len(list), language, n)
	}
	return list
}

// Sessions returns the n shell blocks of a page, each with the first block of plain text between it and the next one.
func Sessions(t testing.TB, path string, n int) []Session {
	t.Helper()
	var list []Session
	for _, m := range find(t, path) {
		switch {
		case m[1] == "sh":
			list = append(list, Session{Script: m[2]})
		case m[1] == "text" && len(list) > 0 && list[len(list)-1].Output == "":
			list[len(list)-1].Output = m[2]
		}
	}
	if len(list) != n {
		t.Fatalf("%s has %d shell blocks, want %d", path, len(list), n)
	}
	return list
}

func find(t testing.TB, path string) [][]string {
	t.Helper()
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return fenced.FindAllStringSubmatch(string(page), -1)
}

const end = "--- end of session ---\n"

// leftOver is how long what the commands have left in the background may still print, or take to end.
var leftOver = time.Minute

// Run runs commands in one shell in a directory, and returns what each of them has printed on standard output. The shell
// stops at the first that fails, and the test with it; so it does if something goes on in the background for a minute after
// the last. env is what the environment has besides, or in another way.
func Run(t testing.TB, dir string, env []string, scripts ...string) []string {
	t.Helper()
	all := strings.Join(scripts, "\nprintf '%s\\n' '"+strings.TrimSuffix(end, "\n")+"'\n")
	cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", all)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "no_proxy=127.0.0.1", "NO_PROXY=127.0.0.1")
	cmd.Env = append(cmd.Env, env...)
	cmd.WaitDelay = leftOver // else a server that a failure has left behind is waited for without end
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s%s", err, out, errs.String())
	}
	printed := strings.Split(string(out), end)
	if len(printed) != len(scripts) {
		t.Fatalf("%d blocks have run, want %d:\n%s%s", len(printed), len(scripts), out, errs.String())
	}
	return printed
}
