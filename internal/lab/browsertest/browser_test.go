package browsertest_test

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// patience is how long anything that a page does may take; the machine may be busy.
const patience = 30 * time.Second

// start starts the one browser that all tests share; each of them has tabs of its own.
var start = sync.OnceValues(func() (context.Context, error) {
	path, err := chromium()
	if err != nil {
		return nil, err
	}
	opts := append(chromedp.DefaultExecAllocatorOptions[:len(chromedp.DefaultExecAllocatorOptions):len(chromedp.DefaultExecAllocatorOptions)],
		chromedp.ExecPath(path),
		chromedp.WSURLReadTimeout(4*patience), // the first start reads all of the browser from the disk
		chromedp.NoSandbox,                    // for root in a container; what it opens is our own page
		chromedp.DisableGPU,
		chromedp.IgnoreCertErrors, // that of a test's server is nobody's
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"), // no network but the server
		chromedp.Flag("hide-scrollbars", false),
	)
	ctx, stop := chromedp.NewExecAllocator(context.Background(), opts...)
	ctx, cancel := chromedp.NewContext(ctx)
	stopBrowser = func() { cancel(); stop() }
	if err := chromedp.Do(ctx); err != nil {
		return nil, fmt.Errorf("starting %s: %w", path, err)
	}
	return ctx, nil
})

// stopBrowser ends it; TestMain calls it after the last test.
var stopBrowser = func() {}

func chromium() (string, error) {
	names := []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"}
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("these tests need a browser in PATH: %s (Debian: apt-get install chromium)", strings.Join(names, ", "))
}

func TestMain(m *testing.M) {
	code := m.Run()
	stopBrowser()
	removeBuilt()
	os.Exit(code)
}

// look is how a tab shows the page.
type look struct {
	width, height int64
	dark          bool
	calm          bool // prefers reduced motion
}

func (l look) String() string {
	theme := "light"
	if l.dark {
		theme = "dark"
	}
	return fmt.Sprintf("%dx%d-%s", l.width, l.height, theme)
}

var desk = look{width: 1440, height: 900}

// tab is one page. What the browser complains about, and every request that leaves the server's
// address, fails the test.
type tab struct {
	t    *testing.T
	ctx  context.Context
	url  string // of the page, with the slash at its end
	rest string // what is true in a page that has nothing more to do

	mu       sync.Mutex
	troubles []string
	excused  bool     // what comes now is the test's own doing
	expected []string // and so is what has one of these in it
}

// twoTabs keeps the browser from more than two tabs at work.
var twoTabs = make(chan struct{}, 2)

// open opens a tab at a place below the lab's page ("", "#sandbox", …).
func open(t *testing.T, base, place string, l look) *tab {
	t.Helper()
	return openPage(t, base, place, l, `document.body.dataset.idle === "true"`)
}

// openPage opens a tab of a page that shows in a way of its own that it is at rest.
func openPage(t *testing.T, base, place string, l look, rest string) *tab {
	t.Helper()
	twoTabs <- struct{}{}
	t.Cleanup(func() { <-twoTabs })
	browser, err := start()
	if err != nil {
		t.Fatal(err)
	}
	// A browser context of its own: no test sees what another one has stored.
	ctx, cancel := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	p := &tab{t: t, ctx: ctx, url: base, rest: rest}
	p.must(chromedp.Do(ctx), "opening a tab")
	p.must(chromedp.Listen(ctx, p.hear), "listening to the tab")
	p.do("listening to the log", command(log.Enable, cdp.Empty{}), command(network.Enable, network.EnableParams{}))
	p.show(l)
	t.Cleanup(p.check)
	p.visit(place)
	return p
}

// do carries out actions that give nothing back.
func (p *tab) do(doing string, actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	p.must(chromedp.Do(ctx, actions...), doing)
}

func (p *tab) must(err error, doing string) {
	p.t.Helper()
	if err != nil {
		p.t.Fatalf("%s: %v", doing, err)
	}
}

// hear takes note of what must not happen.
func (p *tab) hear(ev any) {
	var trouble string
	switch ev := ev.(type) {
	case *runtime.EventConsoleAPICalled:
		if kind := string(ev.Type); kind == "error" || kind == "warning" || kind == "assert" {
			var words []string
			for _, a := range ev.Args {
				words = append(words, string(a.Value)+a.Description)
			}
			trouble = "console: " + strings.Join(words, " ")
		}
	case *runtime.EventExceptionThrown:
		trouble = "exception: " + ev.ExceptionDetails.Text
		if e := ev.ExceptionDetails.Exception; e != nil {
			trouble += " " + e.Description
		}
	case *log.EventEntryAdded:
		// Violations of the content security policy come here, too.
		if level := string(ev.Entry.Level); level == "error" || level == "warning" {
			trouble = fmt.Sprintf("log: %s %s %s", ev.Entry.Source, ev.Entry.Text, ev.Entry.URL)
		}
	case *network.EventRequestWillBeSent:
		if u, err := url.Parse(ev.Request.URL); err == nil && u.Scheme != "data" && u.Scheme != "blob" && !strings.HasPrefix(p.url, u.Scheme+"://"+u.Host+"/") {
			trouble = "a request left the server: " + ev.Request.URL
		}
	case *page.EventJavascriptDialogOpening:
		trouble = "dialog: " + ev.Message
	}
	if trouble == "" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.excused && !slices.ContainsFunc(p.expected, func(part string) bool { return strings.Contains(trouble, part) }) {
		p.troubles = append(p.troubles, trouble)
	}
}

// check fails the test for all that was heard.
func (p *tab) check() {
	p.mu.Lock()
	defer p.mu.Unlock()
	slices.Sort(p.troubles)
	for _, trouble := range slices.Compact(p.troubles) {
		p.t.Error(trouble)
	}
	p.troubles = nil
}

// excuse ignores what the page complains about while the test itself meddles with it.
func (p *tab) excuse(meddle func()) {
	set := func(v bool) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.excused = v
	}
	set(true)
	defer set(false)
	meddle()
}

func command[P, R any](cmd cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, t, cmd, params)
		return chromedp.Void{}, err
	}
}

// show sets size, theme and motion.
func (p *tab) show(l look) {
	p.t.Helper()
	scheme, motion := "light", "no-preference"
	if l.dark {
		scheme = "dark"
	}
	if l.calm {
		motion = "reduce"
	}
	p.do("setting the size and the theme",
		command(emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: l.width, Height: l.height, DeviceScaleFactor: 1}),
		command(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
			{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: motion},
		}}),
	)
}

// visit loads a place afresh and waits until the page has come to rest.
func (p *tab) visit(place string) {
	p.t.Helper()
	p.do("loading the page", chromedp.Navigate("about:blank"), chromedp.Navigate(p.url+place))
	p.idle()
}

// eval looks something up in the page. Tests act by keys only.
func eval[T any](p *tab, js string) T {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](js, chromedp.EvalAwaitPromise))
	p.must(err, "evaluating "+short(js))
	return v
}

func short(js string) string {
	if len(js) > 200 {
		return js[:200] + "…"
	}
	return js
}

// until waits for a condition of the page.
func (p *tab) until(what, js string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	tick := time.NewTicker(15 * time.Millisecond)
	defer tick.Stop()
	for !eval[bool](p, "!!("+js+")") {
		select {
		case <-tick.C:
		case <-ctx.Done():
			p.picture("stuck-" + strings.ReplaceAll(p.t.Name(), "/", "-"))
			p.check()
			p.t.Fatalf("in vain for %v: %s\nthe page says: %s", patience, what, eval[string](p, "document.body.innerText.slice(0, 3000)"))
		}
	}
}

// keys types keys, one after the other.
func (p *tab) keys(keys string) {
	p.t.Helper()
	p.do("pressing keys", chromedp.KeyEvent(keys))
}

// picture writes what the whole page looks like into the folder for screenshots.
func (p *tab) picture(name string) {
	p.t.Helper()
	beyond := true
	size := eval[struct{ Width, Height float64 }](p, `({width: innerWidth, height: document.documentElement.scrollHeight})`)
	shot, err := chromedp.Call(p.ctx, page.CaptureScreenshot, page.CaptureScreenshotParams{
		CaptureBeyondViewport: &beyond, Clip: &page.Viewport{Width: size.Width, Height: size.Height, Scale: 1},
	})
	p.must(err, "taking a screenshot")
	dir := os.Getenv("LAB_SCREENSHOTS")
	if dir == "" {
		dir = p.t.TempDir()
	}
	p.must(os.MkdirAll(dir, 0o750), "making the folder")
	p.must(os.WriteFile(filepath.Join(dir, name+".png"), shot.Data, 0o600), "keeping a screenshot")
	if len(shot.Data) < 4<<10 {
		p.t.Errorf("%s: a screenshot of %d bytes shows nothing", name, len(shot.Data))
	}
}

// idle waits until the page has nothing more to do.
func (p *tab) idle() {
	p.t.Helper()
	p.until("the page comes to rest", `document.readyState === "complete" && `+p.rest)
}
