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

// TestReadmeCommands runs every shell block of the README, and of the pages that have no test of their
// own, in the project's root. The block that runs the tests is this run itself: make is only asked what
// it would do.
func TestReadmeCommands(t *testing.T) {
	t.Parallel()
	var shell []string
	for _, page := range []string{"README.md", "docs/choose.md", "docs/coming-from.md"} {
		found := blocks(read(t, page), "sh")
		if len(found) == 0 {
			t.Fatalf("%s has no shell block", page)
		}
		shell = append(shell, found...)
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
// in the path, but for the port, and compares what it prints.
func TestReadmeServe(t *testing.T) {
	t.Parallel()
	readme := read(t, "README.md")
	list, printed := blocks(readme, "bash"), blocks(readme, "console")
	if len(list) != 1 || len(printed) != 1 {
		t.Fatalf("the README has %d sessions with a server and %d outputs, want one of each", len(list), len(printed))
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
	if got := strings.ReplaceAll(string(out), address, "127.0.0.1:8080"); err != nil || !strings.HasSuffix(got, printed[0]) {
		t.Errorf("%v, and it prints\n%s\nwant\n%s\n%s", err, got, printed[0], errs.String())
	}
}

// TestReadmeOutput compares the README's table and its picture, in both themes, with what the demo
// makes now, but for the times.
func TestReadmeOutput(t *testing.T) {
	t.Parallel()
	var out, errs strings.Builder
	dir := t.TempDir()
	// The lease time is no part of what is shown; a longer one leaves a busy machine the time to be as quick as the picture.
	cmd := command(t, "demo", "--ttl", "3s", "--svg", dir)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, errs.String())
	}
	tables := blocks(read(t, "README.md"), "text")
	if len(tables) != 1 || !strings.HasSuffix(out.String(), tables[0]) {
		t.Errorf("the README has the tables\n%q\nand the demo prints\n%s", tables, out.String())
	}
	for _, file := range []string{"fence-light.svg", "fence-dark.svg"} {
		drawn, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		if shown := read(t, "docs/images/"+file); untimed(string(drawn)) != untimed(shown) {
			t.Errorf("docs/images/%s is not what the demo draws now: fencegate demo --mode fence --svg docs/images", file)
		}
	}
}

func untimed(s string) string {
	return regexp.MustCompile(`>\d+\.\d\d s<`).ReplaceAllString(s, "><")
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
	pages := []string{"README.md", "docs/semantics.md", "docs/invariants.md", "docs/locks.md", "docs/operations.md", "docs/limits.md", "docs/guard.md", "docs/http.md", "docs/reliability.md", "docs/models.md", "docs/choose.md", "docs/coming-from.md"}
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
