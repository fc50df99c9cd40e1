package diagram_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/internal/diagram"
	"github.com/fencegate/fencegate/internal/trace"
)

// paused is the paused client, with names that are meant to break out of the picture.
func paused() trace.Run {
	mark := func(n string) []trace.Mark { return []trace.Mark{{Resource: "coupon", Number: n}} }
	return trace.Run{
		Title: `<script>alert("1")</script>`, Moral: `"]]><b>`,
		Account: trace.Account{Initial: "10", HandedOut: "2", Remaining: "9", Text: "1 too many"},
		Events: []trace.Event{
			{Actor: "A", Action: "acquire", DoneMS: 2, Number: "33", Outcome: "granted", Text: "A & B"},
			{Actor: "lock", Action: "raise", AtMS: 1, DoneMS: 2, Number: "33", Marks: mark("33")},
			{Actor: "A", Action: "pause", AtMS: 3, DoneMS: 3},
			{Actor: "B", Action: "acquire", AtMS: 4, DoneMS: 900, Number: "34", Outcome: "granted"},
			{Actor: "lock", Action: "expire", AtMS: 800, DoneMS: 800, Number: "33"},
			{Actor: "lock", Action: "raise", AtMS: 850, DoneMS: 850, Number: "34", Marks: mark("34")},
			{Actor: "A", Action: "wake", AtMS: 901, DoneMS: 902},
			{Actor: "A", Action: "write", AtMS: 902, DoneMS: 903, Number: "33", Value: `<i>`, Highest: "34", Outcome: "refused"},
			{Actor: "B", Action: "write", AtMS: 904, DoneMS: 905, Number: "34", Value: "9", Outcome: "accepted", Damage: "an update was lost"},
			{Actor: "lock", Action: "raise", AtMS: 999, DoneMS: 999, Number: "9007199254740991", Marks: mark("9007199254740991")},
		},
	}
}

// TestSVG: the picture is well formed, whatever the run's words are, shows all that matters, and keeps
// within its frame.
func TestSVG(t *testing.T) {
	t.Parallel()
	for _, dark := range []bool{false, true} {
		var b bytes.Buffer
		if err := diagram.SVG(&b, paused(), diagram.Picture{Dark: dark, Lock: "memory", Store: "sqlite"}); err != nil {
			t.Fatal(err)
		}
		var texts []string
		height := 0
		d := xml.NewDecoder(bytes.NewReader(b.Bytes()))
		for inside := ""; ; {
			token, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%v in\n%s", err, b.String())
			}
			switch e := token.(type) {
			case xml.StartElement:
				inside = e.Name.Local
				for _, a := range e.Attr {
					n, err := strconv.Atoi(a.Value)
					switch {
					case inside == "svg" && a.Name.Local == "height":
						height = n
					case err != nil:
					case n < 0, (a.Name.Local == "x" || a.Name.Local == "cx") && n > 960, (a.Name.Local == "y" || a.Name.Local == "cy") && n > height:
						t.Errorf("%s %s=%s is outside of the picture", inside, a.Name.Local, a.Value)
					}
				}
				if inside == "script" || inside == "b" || inside == "i" {
					t.Errorf("the run's words have become the element %s", inside)
				}
			case xml.CharData:
				if s := strings.TrimSpace(string(e)); inside == "text" && s != "" {
					texts = append(texts, s)
				}
			}
		}
		all := strings.Join(texts, "\n")
		for _, want := range []string{
			"client A", "memory", "sqlite", "acquire", "token 33", "raise 34", "the lease of 33 is over", "stopped", "continued", "lease 33",
			"write <i> with 33: REFUSED, 33 is older than 34", "write 9 with 34: accepted", "an update was lost", "the store's mark",
			"10 coupons, 2 handed out, 9 remaining: 1 too many",
		} {
			if !strings.Contains(all, want) {
				t.Errorf("the picture does not say %q but\n%s", want, all)
			}
		}
	}
}

// TestSVGIsTheSame draws what does not end within the run again and again: it is the same picture, whose
// words stay words.
func TestSVGIsTheSame(t *testing.T) {
	t.Parallel()
	run := trace.Run{Events: []trace.Event{
		{Actor: "A", Action: "acquire", DoneMS: 1, Number: "33<b>", Outcome: "granted"},
		{Actor: "B", Action: "acquire", AtMS: 2, DoneMS: 3, Number: "34", Outcome: "granted"},
		{Actor: "A", Action: "pause", AtMS: 4, DoneMS: 4},
		{Actor: "B", Action: "pause", AtMS: 5, DoneMS: 5},
	}}
	first := ""
	for range 50 {
		var b strings.Builder
		if err := diagram.SVG(&b, run, diagram.Picture{}); err != nil {
			t.Fatal(err)
		}
		if first == "" {
			first = b.String()
		}
		if b.String() != first {
			t.Fatalf("got\n%s\nand\n%s", first, b.String())
		}
	}
	if strings.Contains(first, "<b>") {
		t.Errorf("a number has become an element:\n%s", first)
	}
}
