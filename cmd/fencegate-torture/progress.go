package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"golang.org/x/term"

	"github.com/fencegate/fencegate/internal/torture"
)

// progress shows how far a run has come: one line that is drawn again on a terminal, else a line every few seconds.
// Its methods are for one goroutine; a nil one shows nothing.
type progress struct {
	w        io.Writer
	whole    time.Duration
	width    func() int    // of the terminal; nil: there is none
	told     time.Duration // when the last plain line was written
	begun    bool
	lastLine string
}

// plainEvery is how often a log is told.
const plainEvery = 5 * time.Second

func newProgress(w io.Writer, whole time.Duration) *progress {
	p := &progress{w: w, whole: whole}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb" {
		p.width = func() int {
			width, _, err := term.GetSize(int(f.Fd()))
			if err != nil || width < 20 {
				return 80
			}
			return width
		}
	}
	return p
}

// show tells of the state of a run.
func (p *progress) show(s torture.Progress) {
	if p.width == nil {
		if p.begun && s.Elapsed-p.told < plainEvery {
			return
		}
		p.begun, p.told = true, s.Elapsed
		fmt.Fprintln(p.w, p.line(s, 0, "  ", "takeovers", "refused", "unknown", "violations"))
		return
	}
	const wideBar, narrowBar = 24, 10
	width := p.width() - 1
	line := p.line(s, wideBar, "  ", "takeovers", "refused", "unknown", "violations")
	if len([]rune(line)) > width {
		line = p.line(s, narrowBar, " ", "over", "ref", "unk", "viol")
	}
	if r := []rune(line); len(r) > width {
		line = string(r[:width])
	}
	if line != p.lastLine {
		p.begun, p.lastLine = true, line
		fmt.Fprint(p.w, "\r"+line+"\x1b[K")
	}
}

// line is the state of a run with a bar of a length, and its counts under such names.
func (p *progress) line(s torture.Progress, length int, space, takeovers, refused, unknown, violations string) string {
	words := []string{s.Elapsed.Truncate(time.Second).String(), s.Doing, "ops " + comma(s.Ops)}
	if length > 0 {
		words = append([]string{bar(s.Elapsed, p.whole, length)}, words...)
	}
	for _, c := range []struct {
		name string
		n    int
	}{{takeovers, s.Takeovers}, {refused, s.Refused}, {unknown, s.Unknown}, {violations, s.Violations}} {
		words = append(words, c.name+" "+comma(c.n))
	}
	return strings.Join(words, space)
}

// end takes the line away.
func (p *progress) end() {
	if p != nil && p.width != nil && p.begun {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}

// bar is the share of the time that has gone by.
func bar(elapsed, whole time.Duration, length int) string {
	n := min(max(int(float64(length)*float64(elapsed)/float64(max(whole, 1))), 0), length)
	return "[" + strings.Repeat("=", n) + strings.Repeat(" ", length-n) + "]"
}

func comma(n int) string { return humanize.Comma(int64(n)) }

// colour says whether w is a terminal whose user has not asked for plain text.
func colour(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}
