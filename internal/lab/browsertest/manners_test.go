package browsertest_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// TestShortcuts: what the help promises, and that it can be switched off.
func TestShortcuts(t *testing.T) {
	t.Parallel()
	p := open(t, serve(t), "", desk)
	p.keys("nnn") // those that come while a step is under way are not queued
	p.until("n makes the next step", `document.body.dataset.step !== "0"`)
	p.idle()
	for eval[bool](p, `document.querySelector('[data-testid="predict-submit"]') === null`) {
		before := eval[string](p, `document.body.dataset.step`)
		p.keys("n")
		p.until("another step", fmt.Sprintf(`document.body.dataset.idle === "true" && document.body.dataset.step !== %q`, before))
	}
	p.keys("k")
	p.until("k selects an event", `document.querySelector("#details-panel.filled")`)
	p.keys(",")
	p.until(", looks back", `!document.getElementById("back-to-now").hidden`)
	p.keys("b")
	p.until("b comes back", `document.getElementById("back-to-now").hidden`)
	p.keys("d")
	p.until("d opens the table", `document.querySelector(".as-table").open`)
	theme := `getComputedStyle(document.body).backgroundColor`
	before := eval[string](p, theme)
	p.keys("t")
	p.until("t changes the theme", fmt.Sprintf("%s !== %q", theme, before))
	p.keys("?")
	p.until("? opens the help", `document.getElementById("help-dialog").open`)
	p.sound("help")
	p.picture("help")
	p.tabTo("#shortcuts-on")
	p.keys(" ")
	p.keys(kb.Escape)
	p.until("Escape closes the help", `!document.getElementById("help-dialog").open`)
	p.keys("r")
	p.settle()
	if got := eval[string](p, `document.body.dataset.step`); got == "0" {
		t.Error("r has begun the part again although shortcuts are switched off")
	}
	p.press("reset")
	p.until("reset begins again", `document.body.dataset.step === "0" && document.body.dataset.idle === "true"`)
}

// TestDiagramByKeys goes from event to event with the arrow keys, and back in time.
func TestDiagramByKeys(t *testing.T) {
	t.Parallel()
	p := open(t, serve(t), link("grant", pausedClient), desk)
	p.playShared(pausedClient)
	events := eval[int](p, `document.querySelectorAll('#diagram [role=button]').length`)
	if events < 13 {
		t.Fatalf("the diagram has %d events to go to, want 13 or more", events)
	}
	p.tabTo("#diagram [role=button]")
	p.keys(kb.Home)
	empty := 0
	for range events {
		if p.text(id("details")) == "" {
			empty++
		}
		if label := eval[string](p, `document.activeElement.getAttribute("aria-label") || ""`); label == "" {
			t.Error("an event of the diagram has no name for those who listen")
		}
		p.keys(kb.ArrowDown)
	}
	if empty > 0 {
		t.Errorf("%d events show no details", empty)
	}
	p.until("the live region tells", `document.getElementById("live").textContent.trim() !== ""`)

	p.tabTo(id("scrub"))
	p.keys(kb.Home)
	p.until("looking at the beginning", `document.querySelectorAll('#diagram [role=button]').length === 0`)
	p.laidOut("an empty diagram")
	if got := p.text(id("account-remaining")); got != "10" {
		t.Errorf("at the beginning %s are left, want 10", got)
	}
	p.keys(kb.End)
	p.until("looking at now", fmt.Sprintf(`document.querySelectorAll('#diagram [role=button]').length === %d`, events))
}

// TestWaiting: a client that waits for the lock is shown, and gets it when the lock is given back.
func TestWaiting(t *testing.T) {
	t.Parallel()
	p := open(t, serve(t), "#/sandbox", desk)
	p.press("A-acquire")
	p.idle()
	p.press("B-acquire")
	p.idle()
	p.until("B waits", `/wait/i.test(document.getElementById("diagram").textContent)`)
	p.picture("waiting")
	p.laidOut("waiting")
	p.press("A-release")
	p.until("B has the lock", `[...document.querySelectorAll('[data-testid^="row-"]')].some((r) => r.children[2].textContent === "B" && r.querySelector(".outcome").textContent === "granted")`)
}

// TestSharedLink: what the sandbox shares is what the link plays.
func TestSharedLink(t *testing.T) {
	t.Parallel()
	p := open(t, serve(t), "#/sandbox", desk)
	p.tabTo(id("mode-grant"))
	p.keys(kb.ArrowUp)
	p.idle()
	for _, control := range []string{"A-acquire", "A-read", "A-write", "A-release"} {
		p.press(control)
		p.idle()
	}
	p.press("share")
	shared := eval[string](p, `document.querySelector('[data-testid="share-link"]').value`)
	p.laidOut("a shared link")
	_, fragment, _ := strings.Cut(shared, "#")
	p.visit("#" + fragment)
	p.playShared("A.acquire~A.read~A.write~A.release")
	if !eval[bool](p, `document.querySelector('[data-testid="mode-writes"]').checked`) {
		t.Errorf("the link %s has not brought its mode along", shared)
	}
	if got := p.text(id("account-remaining")); got != "9" {
		t.Errorf("after the shared script %s are left, want 9", got)
	}
}

// TestReducedMotion: nothing moves by itself for who has asked for that.
func TestReducedMotion(t *testing.T) {
	t.Parallel()
	calm := desk
	calm.calm = true
	p := open(t, serve(t), link("grant", pausedClient), calm)
	p.playShared(pausedClient)
	if moving := eval[[]string](p, `document.getAnimations().filter((a) => a.playState === "running" && a.effect.getComputedTiming().duration > 10)
		.map((a) => (a.animationName || a.transitionProperty) + " on " + a.effect.target.tagName + "." + a.effect.target.getAttribute("class"))`); len(moving) > 0 {
		t.Errorf("it moves: %q", moving)
	}
	if smooth := eval[string](p, `getComputedStyle(document.documentElement).scrollBehavior`); smooth == "smooth" {
		t.Error("scrolling is smooth")
	}
}

// TestForgottenSession: the page says that its session is over, and begins another on request.
func TestForgottenSession(t *testing.T) {
	t.Parallel()
	p := open(t, serve(t), "", desk)
	p.press("step-next")
	p.at(0, 1)
	session := eval[string](p, `performance.getEntriesByType("resource").map((e) => /^.*\/api\/sessions\/[0-9a-f]+/.exec(e.name)).find((m) => m)[0]`)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, session, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	p.until("the page says that it is over", `!document.getElementById("notice").hidden`)
	p.sound("a session that is over")
	p.press("start-again")
	p.at(0, 0)
	p.press("step-next")
	p.at(0, 1)
}

// TestBack: who leaves the page and comes back finds the session as it was, and it goes on. The
// browser keeps such pages, and they must not keep their connections: there are six of them.
func TestBack(t *testing.T) {
	t.Parallel()
	p := open(t, serve(t), "", desk)
	for i := range 3 {
		p.at(0, i)
		p.press("step-next")
		p.at(0, i+1)
		p.do("going away", chromedp.Navigate("about:blank"))
		p.back()
	}
	p.at(0, 3)
	p.answer(1)
	p.at(0, 4)
	if got := eval[int](p, `document.querySelectorAll('[data-testid^="row-"]').length`); got != 4 {
		t.Errorf("the table has %d events, want 4", got)
	}
	for i := range 9 {
		p.visit(fmt.Sprintf("#/%d", i))
	}
}

// back goes back in the tab's history. A page that the browser has kept does not load again.
func (p *tab) back() {
	p.t.Helper()
	h, err := chromedp.Call(p.ctx, page.GetNavigationHistory, cdp.Empty{})
	p.must(err, "looking at the history")
	p.do("going back", command(page.NavigateToHistoryEntry, page.NavigateToHistoryEntryParams{EntryID: h.Entries[h.CurrentIndex-1].ID}))
	p.until("the page is back", fmt.Sprintf(`location.href.startsWith(%q)`, p.url))
}

// TestSkipLink leads past the list of chapters.
func TestSkipLink(t *testing.T) {
	t.Parallel()
	p := open(t, serve(t), "", desk)
	p.tabTo(".skip")
	p.keys(kb.Enter)
	p.until("the story has the focus", `document.activeElement.id === "main"`)
	p.keys(kb.Tab)
	if got := eval[string](p, `document.activeElement.dataset.testid || ""`); got != "step-next" {
		t.Errorf("after the skip link, Tab leads to %q, want step-next", got)
	}
}
