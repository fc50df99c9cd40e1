package report

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Rewrite puts texts into a page, each between its markers: texts["table"] between "<!-- table -->" and
// "<!-- /table -->". Every text needs its markers, once; nothing else is touched.
func Rewrite(page string, texts map[string]string) (string, error) {
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		opens, closes := "<!-- "+name+" -->", "<!-- /"+name+" -->"
		if strings.Count(page, opens) != 1 || strings.Count(page, closes) != 1 {
			return "", fmt.Errorf("want %s and %s once each", opens, closes)
		}
		head, rest, _ := strings.Cut(page, opens)
		_, tail, ok := strings.Cut(rest, closes)
		if !ok {
			return "", fmt.Errorf("%s stands before %s", closes, opens)
		}
		page = head + opens + "\n\n" + strings.TrimSpace(texts[name]) + "\n\n" + closes + tail
	}
	return page, nil
}

// Update rewrites a file in place by Rewrite, in one step, and says whether anything changed. With
// look it changes nothing, and says whether anything would.
func Update(path string, texts map[string]string, look bool) (changed bool, err error) {
	old, err := os.ReadFile(path)
	if err != nil {
		return false, err
	}
	text, err := Rewrite(string(old), texts)
	if err != nil {
		return false, fmt.Errorf("%s: %w", path, err)
	}
	if text == string(old) || look {
		return text != string(old), nil
	}
	temp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return false, err
	}
	defer func() { _ = os.Remove(temp.Name()) }() // there no more after the rename
	mode := os.FileMode(0o644)
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
	}
	_, err = temp.WriteString(text)
	if closed := temp.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Chmod(temp.Name(), mode)
	}
	if err == nil {
		err = os.Rename(temp.Name(), path)
	}
	return err == nil, err
}
