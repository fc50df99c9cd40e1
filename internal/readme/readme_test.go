package readme_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/internal/readme"
)

const page = "# A page\n\n```sh\necho one\ncd /\n```\n\n```text\none\n```\n\nWords, and `code`.\n\n```sql\nselect 1\n```\n\n" +
	"```sh\npwd\n```\n\nIt prints:\n\n```text\n/\n```\n\n```text\nno more\n```\n"

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
		f := &fails{TB: t}
		func() {
			defer func() {
				if recover() != f || !strings.Contains(f.why, why) {
					t.Errorf("got %q, want %q", f.why, why)
				}
			}()
			do(f)
		}()
	}
}
