package browsertest_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
)

// pausedClient is the story of the paused client as a script in a link.
const pausedClient = "A.acquire~A.read~A.pause~operator.expire~B.acquire~B.read~B.write~B.release~A.resume~A.write~A.acquire~A.read~A.write"

func link(mode, script string) string {
	return "#/sandbox?" + url.Values{"mode": {mode}, "do": {script}}.Encode()
}

// playShared plays the script that the address brought along, step by step.
func (p *tab) playShared(script string) {
	p.t.Helper()
	steps := len(strings.Split(script, "~"))
	p.press("play-shared")
	p.press("play") // it plays by itself now: from here on the keys do
	for range steps {
		if eval[bool](p, `document.querySelector('[data-testid="step-next"]') !== null`) {
			p.press("step-next")
			p.idle()
		}
	}
	p.until("the script has been played", fmt.Sprintf(`document.body.dataset.idle === "true" && document.body.dataset.step === "%d"`, steps))
}

// looks are the sizes and themes in which the page is looked at.
func looks() []look {
	var all []look
	for _, size := range []look{{width: 360, height: 740}, {width: 820, height: 1180}, {width: 1440, height: 900}} {
		for _, dark := range []bool{false, true} {
			size.dark = dark
			all = append(all, size)
		}
	}
	return all
}

// lookAll takes pictures of a scene in all sizes and themes and measures it.
func (p *tab) lookAll(scene string) {
	p.t.Helper()
	for _, l := range looks() {
		p.show(l)
		p.settle()
		p.picture(scene + "-" + l.String())
		p.laidOut(scene + " " + l.String())
		if l.width == 1440 || l.width == 360 && l.dark { // what it finds depends on the theme more than on the size
			for _, finding := range p.axe() {
				p.t.Errorf("%s %v: axe: %s", scene, l, finding)
			}
		}
	}
	narrow := look{width: 320, height: 640}
	p.show(narrow)
	p.settle()
	p.picture(scene + "-" + narrow.String())
	p.laidOut(scene + " " + narrow.String())
}

// settle waits until what a change of the size has caused is drawn.
func (p *tab) settle() {
	p.t.Helper()
	eval[bool](p, `new Promise((done) => {
		const frame = (n) => n === 0 ? setTimeout(() => done(true), 30) : requestAnimationFrame(() => frame(n - 1));
		frame(3);
	})`)
}

func TestSandboxLooks(t *testing.T) {
	t.Parallel()
	p := open(t, serve(t), link("grant", pausedClient), desk)
	p.playShared(pausedClient)
	p.press("table-toggle")
	p.keys("j") // the first event, with its request
	for range 9 {
		p.keys("j")
	}
	if got := p.text(id("details")); !strings.Contains(got, "Request") || !strings.Contains(got, "curl") {
		t.Errorf("the details of an event say %q, want its request and a curl line", got)
	}
	p.lookAll("sandbox")
}

func TestChapterLooks(t *testing.T) {
	t.Parallel()
	p := open(t, serve(t), "", desk) // the first chapter is where one comes in
	p.lookAll("start")
	p.show(desk)
	for i := range 3 {
		p.at(0, i)
		p.press("step-next")
	}
	p.at(0, 3)
	p.lookAll("chapter-question")
	p.show(desk)
	p.answer(0)
	p.at(0, 4)
	p.lookAll("chapter-answered")
}

func TestCompareLooks(t *testing.T) {
	t.Parallel()
	p := open(t, serve(t), link("grant", pausedClient), desk)
	p.playShared(pausedClient)
	p.press("compare")
	want := map[string]string{"none": "1 too many", "lock": "1 too many", "writes": "all accounted for", "grant": "all accounted for"}
	for mode, truth := range want {
		column := id("compare-" + mode)
		p.until("the mode "+mode+" is played", fmt.Sprintf(`(document.querySelector(%q) || {dataset: {}}).dataset.done === "true"`, column))
		if got := p.text(column); !strings.Contains(got, truth) {
			t.Errorf("compare, %s: %q does not say %q", mode, got, truth)
		}
	}
	if got := eval[int](p, `document.querySelectorAll("#compare-panel [role=status], #compare-panel [aria-live]").length`); got != 0 {
		t.Errorf("%d parts of the comparison tell of each step to who listens", got)
	}
	p.until("its end is told", `/No lock: 1 too many.*checked on writes: all accounted for/.test(document.getElementById("live").textContent)`)
	p.lookAll("compare")
	p.show(desk)
	p.press("compare-close")
	p.until("the comparison is closed", `document.getElementById("compare-panel").hidden`)
}

// TestMarkOfNoUse: where the store has a mark and nobody checks it, it does not look like one that refuses.
func TestMarkOfNoUse(t *testing.T) {
	t.Parallel()
	p := open(t, serve(t), "", desk)
	for mode, checked := range map[string]bool{"grant": true, "lock": false} {
		p.visit("#/sandbox?mode=" + mode)
		p.press("A-acquire")
		p.idle()
		p.picture("mark-" + mode)
		p.sound("a mark in the mode " + mode)
		area := eval[float64](p, `parseFloat(getComputedStyle(document.querySelector("#diagram .known")).fillOpacity)`)
		said := strings.Contains(p.text("#account"), "not checked") && strings.Contains(eval[string](p, `document.querySelector("#diagram .headline").textContent`), "not checked")
		if area > 0 != checked || said == checked {
			t.Errorf("%s: the mark's area has the opacity %v, and it is said that nobody checks it: %t; want it checked: %t", mode, area, said, checked)
		}
	}
}
