package browsertest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"
)

// focused fails the test where the focus is not at what the selector names.
func (p *tab) focused(after, selector string) {
	p.t.Helper()
	if at := eval[string](p, fmt.Sprintf(`document.activeElement.matches(%q) ? "" : document.activeElement.outerHTML.slice(0, 200)`, selector)); at != "" {
		p.t.Errorf("after %s the focus is at %s, want %s", after, at, selector)
	}
}

// TestFocus: the keyboard's place is never lost: where a control goes or is made anew, it is at what
// takes its place.
func TestFocus(t *testing.T) {
	t.Parallel()
	p := open(t, serve(t), "#/no-lock", desk)
	p.press("step-next")
	p.at(0, 1)
	p.focused("a step", id("step-next"))
	for i := 2; i <= 5; i++ {
		p.keys(kb.Enter) // without a Tab between
		p.at(0, i)
	}
	p.focused("a step before a question", id("answer-0"))
	p.keys(" " + kb.Enter)
	p.at(0, 6)
	p.focused("an answer", id("step-next"))
	p.keys(kb.Enter)
	p.until("the chapter ends", `document.body.dataset.chapterDone === "true"`)
	p.focused("the end", id("next-chapter"))
	p.keys(kb.Tab + kb.Enter)
	p.at(0, 0)
	p.focused("playing it again", "#story-title")

	p.press("step-next")
	p.at(0, 1)
	p.press("table-toggle")
	p.tabTo(id("row-1") + " button")
	p.keys(kb.Enter)
	p.until("the event is shown", `document.querySelector("#details-panel.filled")`)
	p.focused("choosing an event in the table", id("row-1")+" button")
	p.tabTo("#diagram [role=button]")
	p.keys(kb.Enter)
	p.focused("choosing an event in the diagram", id("event-1"))
	p.press("look-back")
	p.until("looking back", `!document.getElementById("back-to-now").hidden`)
	p.press("back-to-now")
	p.focused("coming back to now", id("scrub"))
	p.keys(kb.Home) // before the first event, where nothing is earlier
	p.press("look-back")
	p.press("back-to-now")

	p.visit("#/sandbox")
	p.press("compare") // there is nothing to compare
	p.tabTo("#notice button")
	p.keys(kb.Enter)
	p.focused("closing a notice", "#story-title")
	p.tabTo(".session-options summary")
	p.keys(kb.Enter)
	p.tabTo(".session-options button")
	p.keys(kb.Enter)
	p.idle()
	p.focused("beginning with other settings", "#story-title")
}

// TestListening: who listens to the page hears what happens, once and no more; the drawing is a list of
// events, and the controls say what they are about.
func TestListening(t *testing.T) {
	t.Parallel()
	p := open(t, serve(t), "", desk)
	eval[bool](p, `(() => {
		window.heard = [];
		window.alarm = [];
		new MutationObserver(() => heard.push(document.getElementById("live").textContent)).observe(document.getElementById("live"), {childList: true, characterData: true, subtree: true});
		new MutationObserver(() => { if (document.getElementById("notice").textContent) alarm.push(document.getElementById("notice").textContent); })
			.observe(document.getElementById("notice"), {childList: true, subtree: true});
		return true;
	})()`)
	hears := func(n int, want string) {
		t.Helper()
		p.until(fmt.Sprintf("it was heard %d times", n), fmt.Sprintf(`heard.length >= %d`, n))
		if got := eval[[]string](p, `heard`); len(got) != n || !strings.Contains(got[n-1], want) {
			t.Errorf("heard %q, want %d messages, the last of them with %q", got, n, want)
		}
	}
	for i, want := range []string{"A reads", "B reads", "A writes"} {
		p.at(0, i)
		if got := eval[string](p, `document.getElementById(document.querySelector('[data-testid="step-next"]').getAttribute("aria-describedby")).textContent`); got == "" {
			t.Errorf("step %d: the button does not say what it is about", i+1)
		}
		p.press("step-next")
		hears(i+1, want)
	}
	p.at(0, 3)
	p.answer(1)
	hears(4, "Your prediction was right. B writes what it worked out")
	p.press("step-next")
	p.until("the next part begins", `document.body.dataset.part === "1" && document.body.dataset.idle === "true"`)
	p.press("reset")
	p.idle()
	if got := eval[[]string](p, `alarm`); len(got) != 0 {
		t.Errorf("beginning a session has raised the alarm %q", got)
	}
	for i := range 2 {
		p.at(1, i)
		p.press("step-next")
	}
	p.at(1, 2)
	if got := eval[int](p, `[...document.querySelectorAll("#diagram svg text")].filter((el) => !el.closest("[aria-hidden=true]")).length`); got != 0 {
		t.Errorf("%d loose words of the drawing are read out, beside the sentences of its events", got)
	}
	if got := eval[[]string](p, `[...document.querySelectorAll("#diagram [role=button]")].map((el) => el.getAttribute("aria-label"))`); len(got) != 3 || !strings.Contains(strings.Join(got, " "), "A holds the lock") {
		t.Errorf("the drawing's events are called %q, want a sentence for each of the 3", got)
	}
}
