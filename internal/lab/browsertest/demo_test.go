package browsertest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/fencegate/fencegate/internal/story"
	"github.com/fencegate/fencegate/internal/trace"
	"github.com/fencegate/fencegate/locking/memlock"
	"github.com/fencegate/fencegate/storage/memstore"
)

// TestDemoTrace: what fencegate demo --trace writes can be dropped on the page and chosen with its
// button; each of its runs is drawn and told, and looked back at.
func TestDemoTrace(t *testing.T) {
	t.Parallel()
	file := demoTrace(t)
	text, err := json.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "f.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	p := open(t, serve(t), "", desk)
	for _, way := range []struct {
		name string
		take func(path string)
	}{{"dropped", p.drop}, {"chosen", p.choose}} {
		way.take(path)
		p.until("the trace is shown", `document.querySelector('[data-testid="run-0"]')`)
		for i, run := range file.Runs {
			if p.tabTo(`[name="run"]:checked`); i > 0 {
				p.keys(kb.ArrowDown)
			}
			p.tells(way.name, run)
		}
		p.press("close-trace")
		p.until("the lab is back", `document.querySelector('[data-testid="step-next"]')`)
	}
}

// tells looks whether the page shows a run as it was recorded.
func (p *tab) tells(how string, run trace.Run) {
	p.t.Helper()
	p.until(run.Name+" is shown", fmt.Sprintf(`%s === %d`, rows, len(run.Events)))
	p.laidOut(how + " " + run.Name)
	if got := eval[int](p, `document.querySelectorAll("#diagram [role=button]").length`); got != len(run.Events) {
		p.t.Errorf("%s, %s: %d events are drawn, want %d", how, run.Name, got, len(run.Events))
	}
	if got, want := p.text("#story"), plain(run.Moral); !strings.Contains(got, want) {
		p.t.Errorf("%s, %s: the page says %q, want %q", how, run.Name, got, want)
	}
	if got := p.text(id("account-handed-out")) + " + " + p.text(id("account-remaining")); got != run.Account.HandedOut+" + "+run.Account.Remaining {
		p.t.Errorf("%s, %s: the account says %s, want %+v", how, run.Name, got, run.Account)
	}
	damage := 0
	for _, e := range run.Events {
		if e.Damage != "" {
			damage++
		}
	}
	if got := eval[int](p, `document.querySelectorAll("#diagram .tear").length`); got != damage {
		p.t.Errorf("%s, %s: %d events are drawn as damage, want %d", how, run.Name, got, damage)
	}
	p.keys(",,")
	p.until("looking back", fmt.Sprintf(`%s === %d`, rows, len(run.Events)-2))
	p.keys("b")
}

// choose takes a file by the page's button for it.
func (p *tab) choose(path string) {
	p.t.Helper()
	p.tabTo(id("trace-input"))
	input, err := chromedp.Call(p.ctx, runtime.Evaluate, runtime.EvaluateParams{Expression: "document.activeElement"})
	p.must(err, "finding the button")
	p.do("choosing a file", command(dom.SetFileInputFiles, dom.SetFileInputFilesParams{Files: []string{path}, ObjectID: input.Result.ObjectID}))
}

// demoTrace plays what fencegate demo plays, and returns what it writes.
func demoTrace(t *testing.T) trace.File {
	t.Helper()
	var results []story.Result
	for _, mode := range story.Modes() {
		setup := story.Setup{Lock: memlock.New(), Store: memstore.New(nil), TTL: 300 * time.Millisecond, Start: func(_ context.Context, r story.Role) (story.Performer, error) {
			return story.StartSimulated(r)
		}}
		result, err := story.Run(t.Context(), setup, mode)
		if err != nil {
			t.Fatal(err)
		}
		results = append(results, result)
	}
	return story.Trace("memory", "memory", results)
}
