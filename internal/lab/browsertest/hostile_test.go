package browsertest_test

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"

	"github.com/fencegate/fencegate/internal/trace"
)

// hostile are texts that would become part of the page where text is taken for markup.
var hostile = []string{
	`<img src=x onerror="window.pwned=1">`,
	`"><script>window.pwned=1</script>`,
	`</text><image href=x onerror="window.pwned=1"/>`,
	`javascript:window.pwned=1//'"`,
	"`<b onmouseover=window.pwned=1>`",
}

// inert fails the test where something of a hostile text has come to life.
func (p *tab) inert(where string) {
	p.t.Helper()
	p.settle()
	alive := eval[[]string](p, `[
		...(window.pwned ? ["a script ran"] : []),
		...[...document.querySelectorAll("img, image, iframe, object, embed, base, link:not([rel]), body script, foreignObject")].map((e) => e.outerHTML.slice(0, 200)),
		...[...document.querySelectorAll("*")].filter((e) => [...e.attributes].some((a) => /^on/i.test(a.name) || /^\s*javascript:/i.test(a.value) && a.name !== "aria-label" && a.name !== "value")).map((e) => e.outerHTML.slice(0, 200)),
	]`)
	for _, what := range alive {
		p.t.Errorf("%s: came to life: %s", where, what)
	}
}

// TestHostileLink: nothing in a link's fragment becomes part of the page, and what it asks for does
// not run by itself.
func TestHostileLink(t *testing.T) {
	t.Parallel()
	p := open(t, serve(t), "", desk)
	places := []string{
		"#/%s", "#%s", "#/sandbox?mode=%s", "#/sandbox?mode=grant&lock=%s", "#/sandbox?mode=grant&ttl=%s",
		"#/sandbox?mode=grant&do=%s", "#/sandbox?mode=grant&do=A.write;value=%s", "#/sandbox?mode=grant&do=A.add;key=%s",
		"#/sandbox?mode=grant&do=A.acquire;resource=%s", "#/sandbox?mode=grant&do=__proto__.constructor~%s",
	}
	for i, place := range places {
		for _, h := range []string{hostile[i%len(hostile)], url.QueryEscape(hostile[(i+1)%len(hostile)])} {
			p.visit(fmt.Sprintf(place, h))
			p.inert(fmt.Sprintf(place, h))
		}
	}

	p.visit(link("grant", pausedClient))
	p.settle()
	p.idle()
	if got := eval[int](p, `document.querySelectorAll('[data-testid^="row-"]').length`); got != 0 {
		t.Errorf("a shared script has led to %d events before anybody asked for it", got)
	}
}

// TestHostileTrace: a trace file is drawn, whatever its texts are, and nothing of it comes to life: not
// on the page, nor in the picture that is downloaded of it.
func TestHostileTrace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, `<img src=x onerror=pwned=1>.json`)
	if err := os.WriteFile(path, hostileTrace(t), 0o600); err != nil {
		t.Fatal(err)
	}
	p := open(t, serve(t), "", desk)
	p.drop(path)
	p.until("the trace is shown", `document.querySelector('[data-testid="run-0"]')`)
	p.inert("a dropped trace")
	events := eval[int](p, `document.querySelectorAll('[data-testid^="row-"]').length`)
	for range events {
		p.keys("j")
		p.inert("an event of a dropped trace")
		if eval[bool](p, `document.querySelector("#details .source") !== null`) {
			p.tabTo("#details .source summary")
			p.keys("\r")
		}
	}
	shown := eval[string](p, `document.body.textContent`)
	for _, h := range hostile[:3] {
		if !strings.Contains(shown, h) {
			t.Errorf("%s is not shown as the text that it is", h)
		}
	}
	p.press("table-toggle")
	for _, l := range []look{desk, {width: 320, height: 640}} {
		p.show(l)
		p.settle()
		// Texts of any length may lie on each other in the drawing; the page stays in its frame.
		for _, finding := range eval[[]string](p, layoutJS) {
			if !strings.HasPrefix(finding, "in the drawing") {
				t.Errorf("a hostile trace, %v: %s", l, finding)
			}
		}
		p.picture("hostile-" + l.String())
	}
	for _, finding := range p.axe() {
		t.Errorf("a hostile trace: axe: %s", finding)
	}

	picture := p.download("download-svg", dir)
	d := xml.NewDecoder(strings.NewReader(string(picture)))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("the downloaded picture is no XML: %v", err)
		}
		el, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		if name := el.Name.Local; !slices.Contains([]string{"svg", "title", "desc", "defs", "pattern", "marker", "g", "path", "line", "rect", "circle", "polygon", "polyline", "text", "tspan"}, name) {
			t.Errorf("the downloaded picture has an element <%s>", name)
		}
		for _, a := range el.Attr {
			if strings.HasPrefix(strings.ToLower(a.Name.Local), "on") || strings.Contains(a.Value, "javascript:") && a.Name.Local == "href" {
				t.Errorf("the downloaded picture has %s=%q", a.Name.Local, a.Value)
			}
		}
	}
}

// TestBadFiles: what is no trace is refused with a reason, and the page goes on.
func TestBadFiles(t *testing.T) {
	t.Parallel()
	p := open(t, serve(t), "", desk)
	dir := t.TempDir()
	for name, content := range map[string]string{
		"empty.json": "", "list.json": "[]", "null.json": "null", "picture.json": "\x89PNG\r\n", "other.json": `{"format":"other"}`,
		"new.json":   `{"format":"fencegate-trace","version":99,"runs":[{}]}`,
		"norun.json": `{"format":"fencegate-trace","version":1,"runs":[]}`,
		"wrong.json": `{"format":"fencegate-trace","version":1,"runs":[{"events":[{"seq":"<b>"}]}]}`,
		"deep.json":  `{"format":"fencegate-trace","version":1,"runs":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `}`,
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		p.drop(path)
		p.until(name+" is refused with a reason", fmt.Sprintf(`document.getElementById("notice").innerText.includes(%q)`, name))
		p.inert(name)
	}
	p.press("step-next")
	p.at(0, 1)
}

// TestDownloadedTrace: what the lab lets download is a trace, and can be dropped in again.
func TestDownloadedTrace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := open(t, serve(t), link("grant", pausedClient), desk)
	p.playShared(pausedClient)
	truth := p.text(id("account-truth"))
	rows := eval[int](p, `document.querySelectorAll('[data-testid^="row-"]').length`)
	saved := p.download("download-json", dir)
	var file trace.File
	d := json.NewDecoder(strings.NewReader(string(saved)))
	d.DisallowUnknownFields()
	if err := d.Decode(&file); err != nil || file.Format != trace.Format || len(file.Runs) != 1 || len(file.Runs[0].Events) != rows {
		t.Fatalf("got %v, %q and %d runs, want a trace of %d events", err, file.Format, len(file.Runs), rows)
	}
	path := filepath.Join(dir, "again.json")
	if err := os.WriteFile(path, saved, 0o600); err != nil {
		t.Fatal(err)
	}
	p.drop(path)
	p.until("the trace is shown", `document.querySelector('[data-testid="run-0"]')`)
	if got := p.text(id("account-truth")); got != truth {
		t.Errorf("the dropped trace says %q, the session said %q", got, truth)
	}
	p.sound("a dropped trace")
	p.press("close-trace")
	p.until("the lab is back", `document.querySelector('[data-testid="mode-grant"]')`)
}

// drop drops a file on the page.
func (p *tab) drop(path string) {
	p.t.Helper()
	data := &input.DragData{Items: []*input.DragDataItem{}, Files: []string{path}, DragOperationsMask: 1}
	for _, kind := range []input.DispatchDragEventType{input.DispatchDragEventTypeDragEnter, input.DispatchDragEventTypeDragOver, input.DispatchDragEventTypeDrop} {
		p.do("dropping a file", command(input.DispatchDragEvent, input.DispatchDragEventParams{Type: kind, X: 400, Y: 300, Data: data}))
	}
}

// download presses a button and returns the file that it saves.
func (p *tab) download(testid, dir string) []byte {
	p.t.Helper()
	dir = filepath.Join(dir, testid)
	p.must(os.MkdirAll(dir, 0o750), "making a folder")
	_, err := chromedp.CallBrowser(p.ctx, browser.SetDownloadBehavior, browser.SetDownloadBehaviorParams{
		Behavior: browser.SetDownloadBehaviorBehaviorAllow, BrowserContextID: chromedp.FromContext(p.ctx).BrowserContextID, DownloadPath: dir,
	})
	p.must(err, "allowing downloads")
	p.press(testid)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); time.Now().Before(end); <-tick.C {
		found, _ := filepath.Glob(filepath.Join(dir, "*"))
		if len(found) == 1 && !strings.HasSuffix(found[0], ".crdownload") {
			content, err := os.ReadFile(found[0])
			p.must(err, "reading the download")
			if len(content) > 0 {
				return content
			}
		}
	}
	p.t.Fatalf("%s: nothing was saved", testid)
	return nil
}

// hostileTrace is a trace file whose every text is hostile.
func hostileTrace(t *testing.T) []byte {
	t.Helper()
	i := 0
	bad := func() string { i++; return hostile[i%len(hostile)] }
	exchange := trace.Exchange{
		Method: bad(), URL: bad(), Headers: []string{bad()}, Body: `{"a":"` + hostile[0] + `"}`, Status: 200,
		Replied: []string{bad()}, Reply: bad(), Curl: bad(),
	}
	var events []trace.Event
	for n, actor := range []string{"A", "B", "lock", "store", "operator", bad()} {
		for _, action := range []string{"acquire", "write", "raise", "pause", bad()} {
			events = append(events, trace.Event{
				Seq: len(events) + 1, AtMS: int64(n * 100), DoneMS: int64(n*100 + 50), Actor: actor, To: bad(), Action: action,
				Resource: bad(), Key: bad(), Number: bad(), Value: bad(), Outcome: []string{"granted", "refused", "accepted", bad()}[len(events)%4],
				Reason: bad(), Highest: bad(), Text: bad(), Damage: bad(), LeaseMS: 40,
				Marks:     []trace.Mark{{Resource: bad(), Number: bad()}, {Resource: "coupon", Number: "99999999999999999999"}},
				Exchanges: []trace.Exchange{exchange}, Source: &trace.Source{Language: bad(), Name: bad(), Text: bad()},
			})
		}
	}
	body, err := json.Marshal(trace.File{
		Format: trace.Format, Version: trace.Version, Source: bad(), Lock: bad(), Store: bad(),
		Runs: []trace.Run{{Name: bad(), Title: bad(), Mode: bad(), Moral: bad(), Account: trace.Account{Initial: bad(), HandedOut: bad(), Remaining: bad(), Text: bad()}, Events: events}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return body
}
