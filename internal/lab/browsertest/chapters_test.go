package browsertest_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/fencegate/fencegate/internal/lab"
)

// TestChapters plays every chapter to its end by keyboard alone, answers every prediction (in turns
// right and wrong), and compares what the page shows with what the chapter promises.
func TestChapters(t *testing.T) {
	t.Parallel()
	chapters, err := lab.Chapters()
	if err != nil {
		t.Fatal(err)
	}
	base := serve(t)
	for i, c := range chapters {
		if c.Sandbox {
			continue
		}
		t.Run(c.Slug, func(t *testing.T) {
			t.Parallel()
			p := open(t, base, "#/"+c.Slug, desk)
			asked := 0
			for part := range c.Parts {
				p.playPart(c, part, &asked)
			}
			p.until("the chapter ends", `document.body.dataset.chapterDone === "true"`)
			if got := p.text(id("takeaway")); !strings.Contains(got, plain(c.Takeaway)) {
				t.Errorf("the page says %q at the end, want %q", got, c.Takeaway)
			}
			if asked == 0 {
				t.Error("the chapter asks for no prediction")
			}
			p.press("next-chapter")
			next := chapters[i+1].Slug
			p.until("the next chapter begins", fmt.Sprintf(`document.body.dataset.chapter === %q && document.body.dataset.idle === "true"`, next))
			if got := p.text(id("chapter-" + c.Slug)); !strings.Contains(got, "✓") {
				t.Errorf("the list of chapters says %q, want that it is done", got)
			}
		})
	}
}

// playPart plays a part of a chapter to its end and goes on.
func (p *tab) playPart(c lab.Chapter, part int, asked *int) {
	p.t.Helper()
	losses := 0
	steps := c.Parts[part].Steps
	for i, step := range steps {
		where := fmt.Sprintf("part %d, step %d (%s %s)", part+1, i+1, step.Command.Actor, step.Command.Action)
		p.at(part, i)
		if got := p.text("#story"); !strings.Contains(got, plain(step.Say)) {
			p.t.Errorf("%s: the page does not say %q but %q", where, step.Say, got)
		}
		if q := step.Predict; q != nil {
			answer := q.Right
			if *asked%2 == 1 {
				answer = (q.Right + 1) % len(q.Answers)
			}
			*asked++
			p.answer(answer)
			p.at(part, i+1)
			p.verdict(where, q, answer)
		} else {
			p.press("step-next")
			p.at(part, i+1)
		}
		if step.Expect.Damage {
			losses++
		}
		p.compare(where, step.Command, step.Expect, losses)
	}
	if got := p.text("#story"); !strings.Contains(got, plain(c.Parts[part].After)) {
		p.t.Errorf("part %d: the page does not say %q but %q", part+1, c.Parts[part].After, got)
	}
	p.press("step-next")
}

// at waits until so many steps of a part are done.
func (p *tab) at(part, step int) {
	p.t.Helper()
	p.until(fmt.Sprintf("part %d stands at step %d", part, step), fmt.Sprintf(
		`document.body.dataset.idle === "true" && document.body.dataset.part === "%d" && document.body.dataset.step === "%d"`, part, step))
}

// answer chooses an answer with the arrow keys and submits it.
func (p *tab) answer(n int) {
	p.t.Helper()
	p.tabTo(id("answer-0"))
	if n == 0 {
		p.keys(" ")
	}
	for range n {
		p.keys(kb.ArrowDown)
	}
	if !eval[bool](p, fmt.Sprintf(`document.querySelector(%q).checked`, id("answer-"+strconv.Itoa(n)))) {
		p.t.Fatalf("the arrow keys have not chosen answer %d", n)
	}
	p.press("predict-submit")
}

// verdict looks whether the page tells what was predicted, what came, and why.
func (p *tab) verdict(where string, q *lab.Question, answer int) {
	p.t.Helper()
	got := p.text(id("verdict"))
	for _, want := range []string{q.Answers[answer], plain(q.Why)} {
		if !strings.Contains(got, want) {
			p.t.Errorf("%s: the verdict does not say %q but %q", where, want, got)
		}
	}
	if right := eval[bool](p, fmt.Sprintf(`document.querySelector(%q).classList.contains("right")`, id("verdict"))); right != (answer == q.Right) {
		p.t.Errorf("%s: got a verdict of right = %t for answer %d, want %d", where, right, answer, q.Right)
	}
}

// compare compares what the page shows after a step with what the step promises.
func (p *tab) compare(where string, c lab.Command, want lab.Expect, losses int) {
	p.t.Helper()
	if got := p.text(id("account-remaining")); want.Left != "" && got != want.Left {
		p.t.Errorf("%s: %s are left, want %s", where, got, want.Left)
	}
	if got := eval[int](p, `document.querySelectorAll("#account .losses li").length`); got != losses {
		p.t.Errorf("%s: the page tells of %d losses, want %d", where, got, losses)
	}
	if want.Outcome == "" {
		return
	}
	// The table is the diagram's alternative: what came of the step is in its last row for it.
	came := eval[string](p, fmt.Sprintf(`[...document.querySelectorAll('[data-testid^="row-"]')]
		.filter((r) => r.children[2].textContent === %q && r.children[3].textContent.split(/[ ,]/)[0] === %q)
		.map((r) => r.querySelector(".outcome").textContent).pop() || "nothing"`, c.Actor, c.Action))
	told := want.Outcome
	if want.Reason != "" {
		told += ": " + want.Reason
	}
	if came != told {
		p.t.Errorf("%s: the table says %q, want %q", where, came, told)
	}
}

// plain is a text as the page shows it: what stands in backquotes is set as code.
func plain(text string) string { return strings.ReplaceAll(text, "`", "") }
