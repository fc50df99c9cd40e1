package browsertest_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"
)

// TestCouponLooks: nothing sticks out of the window or is hidden under what is said, and axe-core finds
// nothing serious, with the longest names and the most buckets, on a phone and on a desk, by day and by night.
func TestCouponLooks(t *testing.T) {
	t.Parallel()
	shop := sellCoupons(t, "--payment-delay", "0s")
	p := visitShop(t, shop.url(), "", desk)
	p.expected = []string{"status of 409"}
	all := func(scene string) {
		t.Helper()
		for _, l := range []look{{width: 320, height: 640}, {width: 320, height: 640, dark: true}, {width: 1280, height: 800}, {width: 1280, height: 800, dark: true}} {
			p.show(l)
			p.settle()
			p.picture("coupon-" + scene + "-" + l.String())
			p.sound("coupons, " + scene + " " + l.String())
			for _, hidden := range eval[[]string](p, covered) {
				t.Errorf("coupons, %s %v: %s", scene, l, hidden)
			}
		}
		p.show(desk)
	}
	p.sound("coupons, none yet")
	p.picture("coupon-none-yet")

	long := strings.Repeat("W", 64)
	client := &http.Client{Transport: &http.Transport{}} // other tests' servers close the default one's connections
	t.Cleanup(client.CloseIdleConnections)
	p.create(long, "1000000", "64")
	for _, way := range []string{"claim", "claim-now"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, shop.url()+"coupons/"+long+"/"+way, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Idempotency-Key", long)
		resp, err := client.Do(req)
		if err != nil || resp.StatusCode != http.StatusCreated {
			t.Fatalf("%s: %v, %v", way, resp, err)
		}
		_ = resp.Body.Close()
	}
	p.enter("#claim")
	p.says("sold: receipt b")
	p.enter("#receipts button")
	p.says(" was returned")
	all("long")

	p.create("42", "12", "4")
	p.enter("#claim")
	p.says("sold: receipt b")
	all("sold")
	p.fill("id", long)
	p.enter("#create button")
	p.says("the coupon exists")
	p.show(look{width: 320, height: 640})
	p.sound("a coupon that exists")
}

// covered names what what is said lies on: something that has the focus, or the end of the page.
const covered = `(() => {
	const said = document.getElementById("said");
	const found = [];
	for (const el of document.querySelectorAll("input, button, [tabindex]")) {
		if (!el.checkVisibility() || el.disabled) continue;
		el.focus();
		const r = el.getBoundingClientRect();
		if (r.height < innerHeight / 2 && r.bottom > said.getBoundingClientRect().top + 1) found.push(el.outerHTML.slice(0, 100) + " has the focus and is covered");
	}
	scrollTo(0, document.documentElement.scrollHeight);
	if (document.querySelector("main").getBoundingClientRect().bottom > said.getBoundingClientRect().top + 1) found.push("the end of the page is covered");
	scrollTo(0, 0);
	document.activeElement.blur();
	return found;
})()`

// TestCouponHostileNames: what is no name of a coupon is refused in words, in the form and in the page's
// address, and nothing of it comes to life.
func TestCouponHostileNames(t *testing.T) {
	t.Parallel()
	p := visitShop(t, sellCoupons(t).url(), "", look{width: 320, height: 640})
	p.expected = []string{"status of 404"}
	const rule = "1 to 64 of A-Z a-z 0-9 - _, beginning with a letter or digit"
	for _, name := range []string{"", "Müller", hostile[1]} {
		where := "the name " + name
		// The browser keeps the form from being sent, and says why.
		p.fill("id", kb.Backspace+name+kb.Enter)
		if got := eval[string](p, `document.activeElement.name + " " + document.activeElement.validity.valid + " " + document.activeElement.title`); got != "id false "+rule {
			t.Errorf("%s: the focus is at a field with %q, want one that is refused", where, got)
		}
		p.enter("#open")
		p.says("“"+firstOf(name, 64), "is no name of a coupon: "+rule)
		p.inert(where)
		p.laidOut(where)
	}
	for i, name := range []string{"..", "%E0%A4%A", strings.Repeat("x", 65), strings.Repeat("x", 5000), hostile[0], hostile[1]} {
		place := "#" + name
		if i%2 == 0 {
			place = "#" + url.PathEscape(name)
		}
		p.visit(place)
		p.says("is no name of a coupon: " + rule)
		p.inert(short(place))
	}
	p.picture("coupon-hostile-name")
	p.sound("a hostile name")
	if got := eval[[]string](p, `performance.getEntriesByType("resource").map((e) => e.name).filter((n) => n.includes("/coupons"))`); len(got) > 0 {
		t.Errorf("the server was asked for %q", got)
	}
	p.visit("#42")
	p.says("no coupon 42")
}

func firstOf(s string, n int) string {
	if len(s) > n {
		return s[:n] + "…"
	}
	return s
}

// TestCouponHostileServer: whatever comes from the server is text, and what is no answer of it at all
// is told.
func TestCouponHostileServer(t *testing.T) {
	t.Parallel()
	inside, err := url.Parse(sellCoupons(t).url())
	if err != nil {
		t.Fatal(err)
	}
	bad := hostile[0] + hostile[1] + strings.Repeat("W", 300)
	answers := map[string]any{
		"/coupons/42":          map[string]any{"id": bad, "left": bad, "stock": bad, "buckets": bad, "each": []int{1}, "initial": []int{2}},
		"/coupons/42/audit":    map[string]any{"left": bad, "sold": bad, "stock": bad, "returned": bad, "captured": bad, "without_receipt": []string{bad}, "without_payment": []string{bad}},
		"/coupons/42/receipts": []any{map[string]any{"id": bad, "bucket": bad, "paid": bad, "state": bad}, map[string]any{"id": bad, "state": "sold"}},
		"/coupons/42/claim":    map[string]any{"title": bad, "detail": bad, "field": bad, "outcome": bad},
	}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch answer, ok := answers[r.URL.Path]; {
		case r.URL.Path == "/coupons/42/claim-now":
			w.WriteHeader(http.StatusBadGateway)
			_, _ = w.Write([]byte("<html><b>Bad Gateway</b>"))
		case ok:
			if strings.HasSuffix(r.URL.Path, "/claim") {
				w.WriteHeader(http.StatusConflict)
			}
			_ = json.NewEncoder(w).Encode(answer)
		default:
			httputil.NewSingleHostReverseProxy(inside).ServeHTTP(w, r)
		}
	}))
	t.Cleanup(front.Close)
	p := visitShop(t, front.URL+"/", "#42", look{width: 320, height: 640})
	p.expected = []string{"status of 409", "status of 502"}
	p.says("coupon 42")
	p.enter("#claim")
	p.says(bad + ": " + bad)
	for _, place := range []string{"#total", "#receipts", "#books"} {
		if got := p.text(place); !strings.Contains(got, bad) {
			t.Errorf("%s says %q, want the text that came", place, got)
		}
	}
	p.inert("a hostile server")
	p.laidOut("a hostile server")
	p.picture("coupon-hostile-server")
	p.enter("#now")
	p.says("the server's answer (502) cannot be read", "Send the last claim again")
	p.inert("a proxy's page")
}

// TestCouponServerGone: a server that is stopped while the page is open is told, with what to do; when it
// is there again, the same claim is sent again and sells once. One without its data is told, too.
func TestCouponServerGone(t *testing.T) {
	t.Parallel()
	pay := slowPayments(t)
	kept := []string{"--payment-url", pay.url, "--sqlite-path", t.TempDir() + "/coupons.db"}
	shop := sellCoupons(t, kept...)
	p := visitShop(t, shop.url(), "", desk)
	p.expected = []string{"net::ERR_", "status of 404"}
	p.create("42", "12", "4")
	p.enter("#claim")
	pay.await(t)
	shop.kill()
	unsure := []string{"the server does not answer. It may have been sold: “Send the last claim again” asks under the same key and buys nothing twice", "are from before"}
	p.says(unsure...)
	if got := p.text("#total"); !strings.HasPrefix(got, "12 of 12 left") {
		t.Errorf("without a server the page says %q, want what was known", got)
	}
	p.enter("#again")
	p.says(unsure...)
	p.show(look{width: 320, height: 640})
	p.sound("no server")
	p.picture("coupon-no-server")
	p.show(desk)
	p.enter("#create button")
	p.says("the server does not answer. The stock")

	pay.release()
	shop.start(kept...)
	p.enter("#again")
	p.says("sold: receipt b")
	receipt := p.receipt()
	if got, want := p.text("#books"), "1 sold whose payment is missing"; !strings.Contains(got, want) {
		t.Errorf("with a payment service that has no books the page says %q, want %q", got, want)
	}
	p.holds(11, 12, receipt[:2]+" 5.00 sold")
	p.enter("#again")
	p.says("sold before, under the same key: receipt " + receipt)
	p.holds(11, 12, receipt[:2]+" 5.00 sold")

	shop.kill()
	shop.start() // with a new database
	p.enter("#claim")
	p.says("no coupon 42", "If the server was started anew, create the coupon again")
	if eval[bool](p, `document.getElementById("sale").checkVisibility() || document.getElementById("list").checkVisibility()`) {
		t.Error("the page shows the stock of a coupon that is not there")
	}
	p.focused("a coupon that is gone", "[name=id]")
	p.picture("coupon-gone")
	p.create("42", "12", "4")
	p.holds(12, 12)
}
