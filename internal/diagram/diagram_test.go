package diagram_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/fencegate/fencegate/internal/diagram"
)

var sample = diagram.Diagram{
	Lanes: []string{"A", "B", "lock", "store"},
	Heads: []string{"", "", "memory", "sqlite"},
	Items: []diagram.Item{
		{From: "A", To: "lock", Label: "acquire"},
		{At: time.Millisecond, From: "lock", To: "store", Label: "raise 33"},
		{At: 2 * time.Millisecond, From: "lock", To: "A", Label: "token 33"},
		{At: 3 * time.Millisecond, From: "A", Label: "stopped (SIGSTOP)", Stop: true},
		{At: 1234 * time.Millisecond, From: "B", To: "store", Label: "write 9, token 34", Style: diagram.Good},
		{At: 1300 * time.Millisecond, From: "A", Label: "continued", Go: true},
		{At: 12345 * time.Millisecond, From: "A", To: "store", Label: "write 9, token 33: REFUSED", Style: diagram.Bad},
		{At: 12346 * time.Millisecond, From: "store", Label: strings.Repeat("long ", 100)},
		{At: 12346 * time.Millisecond, From: "B", To: "lock", Label: strings.Repeat("long ", 100)},
	},
}

const want = `          A                      B                           lock                            store
                                                            memory                          sqlite
  0.00 s  │─ acquire ────────────┼────────────────────────────>│                               │
  0.00 s  │                      │                             │─ raise 33 ───────────────────>│
  0.00 s  │<─ token 33 ──────────┼─────────────────────────────│                               │
  0.00 s  * stopped (SIGSTOP)    │                             │                               │
  1.23 s  :                      │─ write 9, token 34 ─────────┼──────────────────────────────>│
  1.30 s  * continued            │                             │                               │
 12.35 s  │─ write 9, token 33: REFUSED ───────────────────────┼──────────────────────────────x│
`

func TestText(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	if err := sample.Text(&out, false); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(out.String(), want) {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
	for line := range strings.Lines(out.String()) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > diagram.Width {
			t.Errorf("a line has %d columns: %s", n, line)
		}
	}
}

func TestColourOnlyWhereAsked(t *testing.T) {
	t.Parallel()
	var plain, colour strings.Builder
	if err := sample.Text(&plain, false); err != nil {
		t.Fatal(err)
	}
	if err := sample.Text(&colour, true); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(plain.String(), "\x1b") {
		t.Error("escape sequences without colour")
	}
	strip := strings.NewReplacer("\x1b[32m", "", "\x1b[31m", "", "\x1b[0m", "")
	if strip.Replace(colour.String()) != plain.String() || colour.String() == plain.String() {
		t.Error("colour changes more than the colour, or nothing")
	}
}
