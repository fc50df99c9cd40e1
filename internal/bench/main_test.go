package main

import (
	"strings"
	"testing"
)

func TestUnknownGroupIsNamed(t *testing.T) {
	t.Parallel()
	err := run([]string{"-only", "loks", "-results", t.TempDir()})
	if err == nil || !strings.Contains(err.Error(), `"loks"`) || !strings.Contains(err.Error(), "locks") {
		t.Errorf("err = %v, want one that names the group and those there are", err)
	}
}
