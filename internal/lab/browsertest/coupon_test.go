package browsertest_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"
)

// couponapi builds the program, once for all tests, into a folder that removeBuilt removes.
var couponapi = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "browsertest-")
	if err != nil {
		return "", err
	}
	removeBuilt = func() { _ = os.RemoveAll(dir) }
	path := filepath.Join(dir, "couponapi")
	build := exec.Command("go", "build", "-o", path, "./examples/couponapi")
	build.Dir = filepath.Join("..", "..", "..") // the module that it is of
	if said, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building couponapi: %w\n%s", err, said)
	}
	return path, nil
})

// removeBuilt is called by TestMain after the last test.
var removeBuilt = func() {}

// couponShop is a running couponapi, with all of its data in itself and in a temporary folder.
type couponShop struct {
	t    *testing.T
	addr string
	kill func() // ends it at once, as a crash does
}

func (s *couponShop) url() string { return "http://" + s.addr + "/" }

// sellCoupons starts couponapi with these flags on an address of its own.
func sellCoupons(t *testing.T, flags ...string) *couponShop {
	t.Helper()
	s := &couponShop{t: t, addr: privateAddress(t)}
	s.start(flags...)
	return s
}

// start starts it on its address, and returns when it serves. It ends with the test.
func (s *couponShop) start(flags ...string) {
	s.t.Helper()
	program, err := couponapi()
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(s.t.Context())
	cmd := exec.CommandContext(ctx, program, append([]string{"--listen", s.addr}, flags...)...)
	cmd.Env = append(os.Environ(), "TMPDIR="+s.t.TempDir()) // where it keeps its database; killed, it leaves that behind
	cmd.Stderr = s.t.Output()
	out, err := cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.kill = sync.OnceFunc(func() { cancel(); _ = cmd.Wait() })
	s.t.Cleanup(s.kill)
	if greeting, err := bufio.NewReader(out).ReadString('\n'); !strings.HasPrefix(greeting, "couponapi: "+s.url()) {
		s.t.Fatalf("couponapi says %q, %v; want its address", greeting, err)
	}
}

// privateAddress returns an address for a server that is started again. The system gives none of
// these ports to who asks for any, and no other test has one for which this one holds the UDP port.
func privateAddress(t *testing.T) string {
	t.Helper()
	for range 1000 {
		addr := "127.0.0.1:" + strconv.Itoa(12000+rand.IntN(20000))
		claim, err := net.ListenPacket("udp4", addr)
		if err != nil {
			continue
		}
		if l, err := net.Listen("tcp4", addr); err == nil {
			_ = l.Close()
			t.Cleanup(func() { _ = claim.Close() })
			return addr
		}
		_ = claim.Close()
	}
	t.Fatal("found no free port on 127.0.0.1")
	return ""
}

// visitShop opens the page, at a coupon or at none.
func visitShop(t *testing.T, url, place string, l look) *tab {
	t.Helper()
	return openPage(t, url, place, l, `!document.querySelector("main").hasAttribute("aria-busy")`)
}

// enter walks to what the selector names, and presses Enter on it.
func (p *tab) enter(selector string) {
	p.t.Helper()
	p.tabTo(selector)
	p.keys(kb.Enter)
}

// fill walks to a field, which selects what is in it, and types.
func (p *tab) fill(name, text string) {
	p.t.Helper()
	p.tabTo(fmt.Sprintf("[name=%q]", name))
	p.keys(text)
}

// create fills in the form and sends it off with Enter.
func (p *tab) create(name, stock, buckets string) {
	p.t.Helper()
	p.fill("id", name)
	p.fill("stock", stock)
	p.fill("buckets", buckets)
	p.keys(kb.Enter)
	p.says("coupon " + name + " is there")
}

// says waits until the page is at rest and says all of these.
func (p *tab) says(parts ...string) {
	p.t.Helper()
	want, err := json.Marshal(parts)
	p.must(err, "writing down what is wanted")
	p.until(fmt.Sprintf("the page says %q", parts), fmt.Sprintf(`%s && %s.every((part) => document.getElementById("said").innerText.includes(part))`, p.rest, want))
}

// holds fails the test where the page does not show so many coupons as left, and these receipts
// (bucket, paid and state), in any order.
func (p *tab) holds(left, stock int, receipts ...string) {
	p.t.Helper()
	if got, want := p.text("#total"), fmt.Sprintf("%d of %d left in coupon ", left, stock); !strings.HasPrefix(got, want) {
		p.t.Errorf("the page says %q, want %q", got, want)
	}
	if got, want := p.text("#books"), fmt.Sprintf("left %d + sold %d = %d;", left, stock-left, stock); !strings.HasPrefix(got, want) {
		p.t.Errorf("of the books the page says %q, want %q", got, want)
	}
	rows := eval[[]string](p, `[...document.querySelectorAll("#receipts tr")].map((tr) => [1, 2, 3].map((i) => tr.children[i].innerText).join(" "))`)
	slices.Sort(rows)
	slices.Sort(receipts)
	if !slices.Equal(rows, receipts) {
		p.t.Errorf("the page lists the receipts %q, want %q", rows, receipts)
	}
}

// receipt is the one that the page has just spoken of.
func (p *tab) receipt() string {
	p.t.Helper()
	said := p.text("#said")
	return said[strings.LastIndex(said, " ")+1:]
}

// TestCouponByKeyboard: who has no mouse creates a coupon, buys it in every way until it is sold out,
// and returns one.
func TestCouponByKeyboard(t *testing.T) {
	t.Parallel()
	p := visitShop(t, sellCoupons(t, "--payment-delay", "0s").url(), "", desk)
	p.expected = []string{"status of 409", "status of 402", "status of 422"} // a browser notes every refusal
	p.fill("id", "summer")
	p.fill("stock", "2")
	p.fill("buckets", "3")
	p.keys(kb.Enter)
	p.says("buckets 3: want 1 to 2")
	p.create("summer", "2", "1")
	p.holds(2, 2)
	if got := p.text("#total"); !strings.HasSuffix(got, "summer, in 1 bucket") {
		t.Errorf("the page says %q, want it to name the coupon and its bucket", got)
	}

	p.enter("#claim")
	p.says("sold: receipt b0.")
	first := p.receipt()
	p.holds(1, 2, "b0 5.00 sold")
	if got := p.text("#receipts"); !strings.Contains(got, first) {
		t.Errorf("the page lists %q, want the receipt %s", got, first)
	}
	p.enter("#again")
	p.says("sold before, under the same key: receipt " + first)
	p.holds(1, 2, "b0 5.00 sold")
	p.enter("#now")
	p.says("sold: receipt b0.now.")
	p.holds(0, 2, "b0 5.00 sold", "b0 nothing sold")
	for _, way := range []string{"#claim", "#now"} {
		p.enter(way)
		p.says("sold out: all 2 of summer")
		p.holds(0, 2, "b0 5.00 sold", "b0 nothing sold")
	}

	p.enter(`[aria-label="Return ` + first + `"]`)
	p.says(first + " was returned")
	p.holds(1, 2, "b0 5.00 returned", "b0 nothing sold")
	p.focused("a return", "#table")
	p.sound("after a return")

	// The key of the last claim was for the other coupon: here it would buy.
	p.fill("price", "13")
	p.create("poor", "5", "2")
	if eval[bool](p, `!document.getElementById("again").disabled`) {
		t.Error("the last claim can be sent again to another coupon")
	}
	p.enter("#claim")
	p.says("the payment was declined")
	p.holds(5, 5)
	p.fill("id", "summer")
	p.enter("#create button") // another price than the first one's
	p.says("the coupon exists and is another one: summer was created with stock 2, buckets 1, price 500")
	p.enter("#open")
	p.says("coupon summer")
	p.holds(1, 2, "b0 5.00 returned", "b0 nothing sold")
}

// TestCouponSlowPayment: a claim says that it is on its way for as long as the payment takes; who presses
// again in the meantime buys once.
func TestCouponSlowPayment(t *testing.T) {
	t.Parallel()
	pay := slowPayments(t)
	p := visitShop(t, sellCoupons(t, "--payment-url", pay.url).url(), "", desk)
	p.create("slow", "3", "3")
	p.enter("#claim")
	pay.await(t)
	// The program waits for a payment for ten seconds: no more is done in the meantime than has to be.
	p.keys(kb.Enter)
	p.enter("#now")
	if got, want := p.text("#said"), "on its way …"; got != want {
		t.Errorf("while the payment takes its time the page says %q, want %q", got, want)
	}
	if got := p.text("#total"); !strings.HasPrefix(got, "3 of 3 left") {
		t.Errorf("before the payment the page says %q", got)
	}
	pay.release()
	p.says("sold: receipt b")
	if got := p.text("#total"); !strings.HasPrefix(got, "2 of 3 left") {
		t.Errorf("after the payment the page says %q, want that one was sold", got)
	}
}

// slowService is a payment service that lets everybody wait until it is told to go on.
type slowService struct {
	url     string
	asked   chan struct{} // gets one for every payment that is asked for
	release func()
}

func slowPayments(t *testing.T) *slowService {
	t.Helper()
	gone := make(chan struct{})
	s := &slowService{asked: make(chan struct{}, 100), release: sync.OnceFunc(func() { close(gone) })}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /payments", func(w http.ResponseWriter, r *http.Request) {
		s.asked <- struct{}{}
		<-gone
		_, _ = fmt.Fprintf(w, `{"key":%q,"state":"captured"}`, r.Header.Get("Idempotency-Key"))
	})
	mux.HandleFunc("GET /payments", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("[]")) })
	front := httptest.NewServer(mux)
	t.Cleanup(front.Close)
	t.Cleanup(s.release)
	s.url = front.URL
	return s
}

// await returns when a payment is asked for.
func (s *slowService) await(t *testing.T) {
	t.Helper()
	select {
	case <-s.asked:
	case <-time.After(patience):
		t.Fatalf("in vain for %v: a payment is asked for", patience)
	}
}
