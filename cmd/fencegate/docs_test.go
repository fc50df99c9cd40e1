//go:build unix

package main

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/internal/testenv"
)

const root = "../.."

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// blocks returns the fenced code blocks of a page in one language.
func blocks(page, language string) (list []string) {
	for _, m := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllStringSubmatch(page, -1) {
		list = append(list, m[1])
	}
	return list
}

// TestReadmeCommands runs every shell block of the README in the project's root. The block
// that runs the tests is this run itself: make is only asked what it would do.
func TestReadmeCommands(t *testing.T) {
	t.Parallel()
	shell := blocks(read(t, "README.md"), "sh")
	if len(shell) < 3 {
		t.Fatalf("the README has %d shell blocks", len(shell))
	}
	for _, block := range shell {
		t.Run(strings.TrimSpace(block), func(t *testing.T) {
			t.Parallel()
			if rest, ok := strings.CutPrefix(block, "make "); ok {
				block = "make --dry-run " + rest
			}
			cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", block)
			cmd.Dir = root
			cmd.Env = append(os.Environ(), "MAKEFLAGS=", "MAKELEVEL=")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// TestReadmeServe runs the README's session with a server, as a person would who has the program
// in the path, but for the port.
func TestReadmeServe(t *testing.T) {
	t.Parallel()
	list := blocks(read(t, "README.md"), "bash")
	if len(list) != 1 {
		t.Fatalf("the README has %d sessions with a server, want 1", len(list))
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(self, filepath.Join(dir, "fencegate")); err != nil {
		t.Fatal(err)
	}
	address := testenv.FreeAddress(t)
	cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", strings.ReplaceAll(list[0], "127.0.0.1:8080", address)+"\nwait")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "FENCEGATE_LISTEN="+address)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil || !strings.HasPrefix(string(out), "ok\n") || !strings.HasSuffix(string(out), "\n7") {
		t.Errorf("%v, want no error, ok first and 7 left last:\n%s\n%s", err, out, errs.String())
	}
}

// TestReadmeOutput compares the README's pictures with what the demo prints now, but for
// the times.
func TestReadmeOutput(t *testing.T) {
	t.Parallel()
	var out, errs strings.Builder
	cmd := command(t, "demo")
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, errs.String())
	}
	got := untimed(out.String())
	pictures := blocks(read(t, "README.md"), "text")
	if len(pictures) != 2 {
		t.Fatalf("the README has %d pictures, want the story and the table", len(pictures))
	}
	for _, want := range pictures {
		if !strings.Contains(got, untimed(want)) {
			t.Errorf("the demo does not print\n%s\nbut\n%s", want, out.String())
		}
	}
}

func untimed(s string) string {
	return regexp.MustCompile(`(?m)^ *\d+\.\d\d s `).ReplaceAllString(s, "")
}

// TestReadmeCode finds every Go block of the README in the example that it is from.
func TestReadmeCode(t *testing.T) {
	t.Parallel()
	for _, block := range blocks(read(t, "README.md"), "go") {
		if !strings.Contains(read(t, "examples/coupon/main.go"), block) {
			t.Errorf("examples/coupon has no such code:\n%s", block)
		}
	}
}

// TestDocsNameWhatIsThere looks for every test that docs/ names, and follows every link
// within the project.
func TestDocsNameWhatIsThere(t *testing.T) {
	t.Parallel()
	tests := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		src, err := os.ReadFile(path)
		for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllStringSubmatch(string(src), -1) {
			tests[m[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	scenarios := read(t, "storage/storagetest/suite.go")
	invariants := read(t, "docs/invariants.md")
	pages := []string{"README.md", "docs/semantics.md", "docs/invariants.md", "docs/locks.md", "docs/operations.md", "docs/limits.md", "docs/guard.md", "docs/http.md", "docs/reliability.md", "docs/models.md"}
	for _, page := range pages {
		for _, name := range regexp.MustCompile(`\bTest[A-Z0-9]\w+`).FindAllString(read(t, page), -1) {
			if !tests[name] {
				t.Errorf("%s names %s, which is not there", page, name)
			}
		}
	}
	for _, m := range regexp.MustCompile(`"([a-z][^"]+)"`).FindAllString(invariants, -1) {
		if !strings.Contains(scenarios, m) {
			t.Errorf("docs/invariants.md names the scenario %s, which is not there", m)
		}
	}
	for _, page := range pages {
		for _, m := range regexp.MustCompile(`\]\(([^)#:]+)\)`).FindAllStringSubmatch(read(t, page), -1) {
			if _, err := os.Stat(filepath.Join(root, filepath.Dir(page), m[1])); err != nil {
				t.Errorf("%s links to %s, which is not there", page, m[1])
			}
		}
	}
}
