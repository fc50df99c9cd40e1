package main

import (
	"os"
	"regexp"
	"slices"
	"testing"
)

// TestReadmeNamesAll: the README's table has every exhibit, in the order of the visit, by its title.
func TestReadmeNamesAll(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	var got, want [][2]string
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\| (.*) \\|$").FindAllStringSubmatch(string(page), -1) {
		got = append(got, [2]string{m[1], m[2]})
	}
	for _, e := range Exhibits() {
		want = append(want, [2]string{e.Name, e.Title})
	}
	if !slices.Equal(got, want) {
		t.Errorf("the README has\n%q\nwant\n%q", got, want)
	}
}
