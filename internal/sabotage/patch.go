package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// patch is one act of sabotage.
type patch struct {
	name  string     // its path without the ending: "storage/retired-is-plain"
	what  string     // what it breaks
	tests [][]string // arguments of go test, each of which must fail
	runs  [][]string // arguments of fencegate-torture run, each of which must find a violation
	like  string     // another patch's name, whose diff this one has
	files []string   // what it changes, in the project
	diff  []byte
}

// load reads the patches of a group, one patch, or all.
func load(dir, only string) ([]patch, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*", "*.patch"))
	if err != nil {
		return nil, err
	}
	slices.Sort(paths)
	var all []patch
	for _, path := range paths {
		name, err := filepath.Rel(dir, strings.TrimSuffix(path, ".patch"))
		if err != nil {
			return nil, err
		}
		name = filepath.ToSlash(name)
		if only != "" && only != name && !strings.HasPrefix(name, only+"/") {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		p, err := parse(name, text)
		if err == nil && p.like != "" {
			err = p.borrow(dir)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		all = append(all, p)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no patch is called %q", only)
	}
	return all, nil
}

func parse(name string, text []byte) (patch, error) {
	p := patch{name: name, diff: text}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\r\n")
		comment, isComment := strings.CutPrefix(line, "# ")
		switch {
		case isComment && strings.HasPrefix(comment, "test: "):
			p.tests = append(p.tests, fields(strings.TrimPrefix(comment, "test: ")))
		case isComment && strings.HasPrefix(comment, "run: "):
			p.runs = append(p.runs, fields(strings.TrimPrefix(comment, "run: ")))
		case isComment && strings.HasPrefix(comment, "like: "):
			p.like = strings.TrimPrefix(comment, "like: ")
		case isComment && p.what == "":
			p.what = comment
		case strings.HasPrefix(line, "+++ b/"):
			p.files = append(p.files, strings.TrimPrefix(line, "+++ b/"))
		}
	}
	if p.what == "" || len(p.tests)+len(p.runs) == 0 || (len(p.files) == 0) == (p.like == "") {
		return p, errors.New("want a line that says what is broken, a line \"# test: ...\" or \"# run: ...\", and a diff with a/ and b/ or a line \"# like: ...\"")
	}
	return p, nil
}

// borrow takes the diff of the patch that this one is like.
func (p *patch) borrow(dir string) error {
	text, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(p.like)+".patch")) //nolint:gosec // the names are our own patches'
	if err != nil {
		return err
	}
	lender, err := parse(p.like, text)
	if err != nil {
		return fmt.Errorf("%s: %w", p.like, err)
	}
	p.files, p.diff = lender.files, lender.diff
	return nil
}

// fields splits at spaces; single quotes keep what is between them together.
func fields(s string) (list []string) {
	for i, part := range strings.Split(s, "'") {
		if i%2 == 1 {
			list = append(list, part)
			continue
		}
		list = append(list, strings.Fields(part)...)
	}
	return list
}

// apply writes the patched copies of the files into dir, and an overlay that puts them in the
// place of the originals. It returns the overlay's path.
func (p patch) apply(ctx context.Context, dir string) (string, error) {
	replace := map[string]string{}
	for _, file := range p.files {
		original, err := filepath.Abs(filepath.FromSlash(file))
		if err != nil {
			return "", err
		}
		text, err := os.ReadFile(original)
		if err != nil {
			return "", err
		}
		broken := filepath.Join(dir, filepath.FromSlash(file))
		if err := os.MkdirAll(filepath.Dir(broken), 0o700); err != nil {
			return "", err
		}
		if err := os.WriteFile(broken, text, 0o600); err != nil { //nolint:gosec // the names are our own patches'
			return "", err
		}
		replace[original] = broken
	}
	// git apply takes no part of a patch that does not fit whole. Outside of a repository it
	// works on plain files.
	git := exec.CommandContext(ctx, "git", "apply", "--whitespace=nowarn", "-")
	git.Dir = dir
	git.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
	git.Stdin = bytes.NewReader(p.diff)
	if out, err := git.CombinedOutput(); err != nil {
		return "", fmt.Errorf("it no longer applies: %w\n%s", err, out)
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, overlay, 0o600)
}

func goTest(ctx context.Context, args []string) (output string, err error) {
	cmd := exec.CommandContext(ctx, "go", append([]string{"test", "-timeout=5m"}, args...)...)
	cmd.Env = append(os.Environ(), "FENCEGATE_TEST_REQUIRE=1")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// try runs the tests and the torture under the patch. It is caught if each of them failed.
func (p patch) try(ctx context.Context) (caught bool, output string, err error) {
	dir, err := os.MkdirTemp("", "sabotage-")
	if err != nil {
		return false, "", err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	overlay, err := p.apply(ctx, dir)
	if err != nil {
		return false, "", err
	}
	for _, args := range p.tests {
		var err error
		output, err = goTest(ctx, append([]string{"-count=1", "-overlay", overlay}, args...))
		switch {
		case err == nil:
			return false, output, nil
		case strings.Contains(output, "[build failed]") || strings.Contains(output, "[setup failed]"):
			return false, output, errors.New("it does not compile")
		case !strings.Contains(output, "--- FAIL") && !strings.Contains(output, "panic: test timed out"):
			return false, output, fmt.Errorf("no test failed, but go test did: %w", err)
		}
	}
	if len(p.runs) == 0 {
		return true, "", nil
	}
	programs, err := build(ctx, dir, overlay)
	if err != nil {
		return false, "", err
	}
	for _, args := range p.runs {
		var verdict string
		verdict, output, err = search(func() (string, string, error) { return programs.torture(ctx, patience, args) })
		if err != nil || verdict != violated {
			return false, output, err
		}
	}
	return true, output, nil
}
