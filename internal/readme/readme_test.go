package readme_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fencegate/fencegate/internal/readme"
)

const page = "# A page\n\n```sh\necho one\ncd /\n```\n\n```text\none\n```\n\nWords, and `code`.\n\n```sql\nselect 1\n```\n\n" +
	"```sh\npwd\n```\n\nIt prints:\n\n```text\n/\n```\n\n```text\nno more\n```\n"

func TestMain(m *testing.M) {
	*readme.LeftOver = time.Second
	os.Exit(m.Run())
}

func write(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "README.md")
	if err := os.WriteFile(path, []byte(page), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestSessions(t *testing.T) {
	t.Parallel()
	got := readme.Sessions(t, write(t), 2)
	if want := []readme.Session{{"echo one\ncd /\n", "one\n"}, {"pwd\n", "/\n"}}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := readme.Blocks(t, write(t), 3, "text"), []string{"one\n", "/\n", "no more\n"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestRun: all is one shell, and what each part prints is told apart.
func TestRun(t *testing.T) {
	t.Parallel()
	got := readme.Run(t, t.TempDir(), []string{"WHO=me"}, "cd /", "pwd\n", "echo \"$WHO\"; echo not this >&2")
	if want := []string{"", "/\n", "me\n"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// fails is a test that is to fail.
type fails struct {
	testing.TB
	why string
}

func (f *fails) Helper() {}

func (f *fails) Fatalf(format string, args ...any) {
	f.why = fmt.Sprintf(format, args...)
	panic(f)
}

// TestFails: what is not as the page says fails the test, and says why.
func TestFails(t *testing.T) {
	t.Parallel()
	path := write(t)
	for why, do := range map[string]func(f *fails){
		"has 2 shell blocks, want 3":     func(f *fails) { readme.Sessions(f, path, 3) },
		"has 1 blocks of sql, want 2":    func(f *fails) { readme.Blocks(f, path, 2, "sql") },
		"exit status 3\nso far\nbecause": func(f *fails) { readme.Run(f, ".", nil, "echo so far; echo because >&2; (exit 3); echo more") },
		"1 blocks have run, want 2":      func(f *fails) { readme.Run(f, ".", nil, "exit 0", "pwd") },
	} {
		wantFails(t, why, do)
	}
}

func wantFails(t *testing.T, why string, do func(f *fails)) {
	t.Helper()
	f := &fails{TB: t}
	defer func() {
		if recover() != f || !strings.Contains(f.why, why) {
			t.Errorf("got %q, want %q", f.why, why)
		}
	}()
	do(f)
}

// TestBackground: a server that a session has left behind keeps nobody waiting, be it after a failure or in the end.
func TestBackground(t *testing.T) {
	t.Parallel()
	for code, why := range map[string]string{"3": "exit status 3\nso far\n", "0": "WaitDelay expired"} {
		begun := time.Now()
		pid := filepath.Join(t.TempDir(), "pid")
		wantFails(t, why, func(f *fails) {
			readme.Run(f, ".", []string{"PID=" + pid}, "sleep 300 &\necho $! >\"$PID\"\necho so far\nexit "+code)
		})
		if took := time.Since(begun); took > 2*time.Minute {
			t.Errorf("exit %s: it took %v", code, took)
		}
		text, err := os.ReadFile(pid)
		if err != nil {
			t.Fatal(err)
		}
		n, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			t.Fatal(err)
		}
		if p, err := os.FindProcess(n); err == nil {
			_ = p.Kill()
		}
	}
}
