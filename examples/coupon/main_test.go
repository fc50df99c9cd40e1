package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const want = `A holds token 2, reads 10, and is paused
B holds token 3, reads 10, writes 9
A wakes up, writes 9 with token 2, and is refused: the store has seen 3
A holds token 4, reads 9, writes 8
2 coupons were handed out, 8 are left of 10
`

func TestCoupon(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	if err := run(t.Context(), &out, filepath.Join(t.TempDir(), "coupons.db")); err != nil {
		t.Fatal(err)
	}
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}

func TestShortEnoughToCopy(t *testing.T) {
	t.Parallel()
	src, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(src), "\n"); n > 150 {
		t.Errorf("main.go has %d lines, want at most 150", n)
	}
}
