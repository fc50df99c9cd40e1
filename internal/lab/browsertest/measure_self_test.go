package browsertest_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestTheMeasures: a page on which everything is wrong is found out, and one on which nothing is, is not.
func TestTheMeasures(t *testing.T) {
	t.Parallel()
	const good = `<!doctype html><html lang="en"><title>good</title><body data-idle="true"><main><h1>Good</h1><p>All is well.</p>
		<svg width="200" height="60" role="img" aria-label="two words"><text x="5" y="20">one</text><text x="5" y="50">two</text></svg></main>`
	const bad = `<!doctype html><html lang="en"><title>bad</title><body data-idle="true"><main><h1>Bad</h1>
		<p style="width:3000px">too wide</p>
		<p style="width:60px;overflow:hidden;white-space:nowrap">this text is cut off on the right</p>
		<div style="position:relative;height:3em"><span style="position:absolute;left:0;top:0">one label</span><span style="position:absolute;left:0;top:4px">another</span></div>
		<section style="height:50px"></section>
		<svg width="200" height="60"><text x="150" y="20">a text that leaves the drawing</text><text x="5" y="50">one text</text><text x="9" y="52">on another</text></svg>
		<button></button><p style="color:#ccc;background:#fff">too pale</p>
		<img src="http://example.com/x.png"><script>alert(1)</script></main>`
	mux := http.NewServeMux()
	for path, body := range map[string]string{"/good": good, "/bad": bad} {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Security-Policy", "default-src 'self'; style-src 'unsafe-inline'; img-src *")
			_, _ = w.Write([]byte(body))
		})
	}
	mux.HandleFunc("/favicon.ico", func(http.ResponseWriter, *http.Request) {})
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)

	p := open(t, srv.URL+"/", "good", desk)
	p.sound("the good page")
	p.check()

	p.visit("bad")
	layout := strings.Join(eval[[]string](p, layoutJS), "\n")
	for _, want := range []string{
		"the page is ", "sticks out of the window", "cut off on the right", "leaves it", `"one text" lies on "on another"`,
		`"one label" lies on "another"`, "empty (",
	} {
		if !strings.Contains(layout, want) {
			t.Errorf("the layout of the bad page: %q was not found in\n%s", want, layout)
		}
	}
	axe := strings.Join(p.axe(), "\n")
	for _, want := range []string{"button-name", "image-alt", "color-contrast"} {
		if !strings.Contains(axe, want) {
			t.Errorf("axe on the bad page: %q was not found in\n%s", want, axe)
		}
	}
	p.mu.Lock()
	heard := strings.Join(p.troubles, "\n")
	p.troubles = nil
	p.mu.Unlock()
	for _, want := range []string{"a request left the server: http://example.com/x.png", "Content Security Policy"} {
		if !strings.Contains(heard, want) {
			t.Errorf("the tab has not heard %q, only\n%s", want, heard)
		}
	}
}
