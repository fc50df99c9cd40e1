package browsertest_test

import (
	"fmt"
	"strings"

	"github.com/chromedp/chromedp/kb"
)

// id selects what bears a data-testid.
func id(name string) string { return `[data-testid="` + name + `"]` }

// tabTo presses Tab until what the selector names has the focus, as somebody without a mouse does.
// What is on the way must be visible, and say that it is focused.
func (p *tab) tabTo(selector string) {
	p.t.Helper()
	p.walk(kb.Tab, selector)
}

func (p *tab) walk(key, selector string) {
	p.t.Helper()
	var way []string
	for range 200 {
		at := eval[struct {
			Here, Dark bool
			What       string
		}](p, fmt.Sprintf(`(() => {
			const el = document.activeElement, s = getComputedStyle(el), box = el.getBoundingClientRect();
			const ring = s.outlineStyle !== "none" && parseFloat(s.outlineWidth) > 0 || s.boxShadow !== "none";
			return {
				here: el.matches(%q),
				dark: el !== document.body && el.tabIndex >= 0 && document.hasFocus() && !ring && box.width > 2,
				what: el.tagName + " " + (el.dataset.testid || el.id || el.textContent.trim().slice(0, 30)),
			};
		})()`, selector))
		if at.Dark {
			p.t.Errorf("nothing shows that %q has the focus", at.What)
		}
		if at.Here {
			return
		}
		way = append(way, at.What)
		p.keys(key)
	}
	p.picture("unreachable-" + strings.ReplaceAll(p.t.Name(), "/", "-"))
	p.t.Fatalf("%s cannot be reached with the keyboard; on the way: %q", selector, way)
}

// press walks to a control and presses Enter on it.
func (p *tab) press(testid string) {
	p.t.Helper()
	p.tabTo(id(testid))
	p.keys(kb.Enter)
}

// text returns what an element says.
func (p *tab) text(selector string) string {
	p.t.Helper()
	return eval[string](p, fmt.Sprintf(`(document.querySelector(%q) || {innerText: ""}).innerText.trim()`, selector))
}
