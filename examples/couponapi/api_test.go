package main

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// TestAPI goes through the whole API.
func TestAPI(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w wishes) {
		d := newWorld(t, w).open(t, 5, 2)[0]
		if got := d.stock(); got.Left != 5 || fmt.Sprint(got.Each, got.Initial) != "[3 2] [3 2]" {
			t.Errorf("got the stock %+v", got)
		}
		again := string(encode(coupon{ID: d.coupon, Stock: 5, Buckets: 2, Price: 500}))
		into[coupon](t, d.send(http.MethodPost, "/coupons", again), http.StatusCreated)
		d.send(http.MethodPost, "/coupons", strings.Replace(again, ":500", ":501", 1)).is(t, exists)

		first := into[receipt](t, d.claim("order-1"), http.StatusCreated)
		want := receipt{ID: fmt.Sprintf("b%d.order-1", first.Bucket), Coupon: d.coupon, Bucket: first.Bucket, Key: "order-1", Paid: 500, State: receiptSold}
		if first != want {
			t.Errorf("got %+v, want %+v", first, want)
		}
		if got := into[receipt](t, d.claim("order-1"), http.StatusOK); got != first {
			t.Errorf("the same key again: got %+v, want %+v", got, first)
		}
		now := into[receipt](t, d.claimNow("order-1"), http.StatusCreated) // the keys of the two have nothing to do with each other
		if got := into[receipt](t, d.claimNow("order-1"), http.StatusOK); got != now || now.Paid != 0 {
			t.Errorf("claim-now, and again: got %+v and %+v", now, got)
		}
		d.audit(3, 2, 1)

		if got := into[receipt](t, d.send(http.MethodGet, "/coupons/"+d.coupon+"/receipts/"+first.ID, ""), http.StatusOK); got != first {
			t.Errorf("got the receipt %+v, want %+v", got, first)
		}
		if got := into[receipt](t, d.giveReturn(first.ID), http.StatusOK); got.State != receiptReturned {
			t.Errorf("returned: got %+v", got)
		}
		d.giveReturn(first.ID).is(t, returned)
		d.giveReturn("b0.nobody").is(t, notFound)
		d.giveReturn("b2.order-1").is(t, notFound) // there is no such bucket
		d.audit(4, 1, 0)                           // the stock is back, and the money

		into[receipt](t, d.giveReturn(now.ID), http.StatusOK)
		d.giveReturn(now.ID).is(t, returned)
		d.audit(5, 0, 0)
		state := into[sale](t, d.send(http.MethodGet, "/coupons/"+d.coupon+"/claims/order-1", ""), http.StatusOK)
		if state.State != saleSold || *state.Receipt != first {
			t.Errorf("got the claim %+v", state)
		}
	})
}

// TestFallOver empties one bucket after the other: no claim says sold out before all are empty.
func TestFallOver(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w wishes) {
		d := newWorld(t, w).open(t, 7, 3)[0]
		for i := range 7 {
			claim := d.claim
			if i%2 == 1 {
				claim = d.claimNow
			}
			into[receipt](t, claim(fmt.Sprint("k", i)), http.StatusCreated)
		}
		d.claim("late").is(t, soldOut)
		d.claimNow("late").is(t, soldOut)
		if got := d.stock(); fmt.Sprint(got.Each) != "[0 0 0]" {
			t.Errorf("got %v left", got.Each)
		}
		d.audit(0, 7, 4)

		// The list of receipts, in pages of two over the three buckets.
		seen := map[string]bool{}
		for after := ""; ; {
			page := into[[]receipt](t, d.send(http.MethodGet, "/coupons/"+d.coupon+"/receipts?limit=2&after="+after, ""), http.StatusOK)
			for _, r := range page {
				after = r.ID
				if seen[r.ID] {
					t.Errorf("%s is in two pages", r.ID)
				}
				seen[r.ID] = true
			}
			if len(page) < 2 {
				break
			}
		}
		if len(seen) != 7 {
			t.Errorf("got %d receipts in pages, want 7", len(seen))
		}

		// What is returned can be claimed, under a new key: a refusal stands.
		into[receipt](t, d.giveReturn(d.receipts()[0].ID), http.StatusOK)
		d.claim("late").is(t, soldOut)
		d.claimNow("late").is(t, soldOut)
		r := into[receipt](t, d.claim("new"), http.StatusCreated)
		into[receipt](t, d.giveReturn(r.ID), http.StatusOK)
		into[receipt](t, d.claimNow("new"), http.StatusCreated)
	})
}

// TestBusyBucket: while one bucket's claim waits for its payment, the next claim takes another.
func TestBusyBucket(t *testing.T) {
	t.Parallel()
	waiting, resume := make(chan struct{}, 2), make(chan struct{})
	d := newWorld(t, wishes{stub: &paymentStub{booked: func(string) {
		waiting <- struct{}{}
		standStill(t, resume)
	}}}).open(t, 2, 2)[0]
	first, second := d.start("/claim", "a"), d.start("/claim", "b")
	await(t, waiting)
	await(t, waiting)
	if sold := d.receipts(); len(sold) > 0 { // it was one after the other
		t.Errorf("both have come to their payment, and there is the receipt %v", sold)
	}
	close(resume)
	into[receipt](t, <-first, http.StatusCreated)
	into[receipt](t, <-second, http.StatusCreated)
	d.audit(0, 2, 2)
}

// TestClaimNowTogether: 20 buyers at once, for fewer coupons.
func TestClaimNowTogether(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w wishes) {
		w.desks = 2
		desks := newWorld(t, w).open(t, 13, 3)
		var mu sync.Mutex
		statuses := map[int]int{}
		var all sync.WaitGroup
		for i := range 20 {
			d := desks[i%2]
			all.Go(func() {
				a, err := request(t.Context(), http.MethodPost, d.url+"/coupons/"+d.coupon+"/claim-now", "", "Idempotency-Key", fmt.Sprint("k", i))
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				statuses[a.status]++
			})
		}
		all.Wait()
		if statuses[http.StatusCreated] != 13 || statuses[http.StatusConflict] != 7 {
			t.Errorf("got the statuses %v, want 13 of 201 and 7 of 409", statuses)
		}
		desks[0].audit(0, 13, 0)
	})
}

// TestWrongInput: what cannot be is refused with a problem that says what is allowed.
func TestWrongInput(t *testing.T) {
	t.Parallel()
	d := newWorld(t, wishes{}).open(t, 5, 1)[0]
	at := "/coupons/" + d.coupon
	long := strings.Repeat("x", 65)
	for _, c := range []struct {
		name, method, path, body string
		headers                  []string
		status                   int
		want                     string // in the problem
	}{
		{"no body", "POST", "/coupons", "", []string{"Content-Type", "application/json"}, 400, "the body is empty"},
		{"no JSON", "POST", "/coupons", "{", nil, 400, "want one JSON object"},
		{"two objects", "POST", "/coupons", `{"id":"a","stock":1}{}`, nil, 400, "something after the object"},
		{"a list", "POST", "/coupons", `[1]`, nil, 400, "want one JSON object, not a JSON array\""},
		{"unknown field", "POST", "/coupons", `{"id":"a","stock":1,"stok":2}`, nil, 400, "stok"},
		{"wrong type", "POST", "/coupons", `{"id":"a","stock":"1"}`, nil, 400, `"field":"stock"`},
		{"another type of body", "POST", "/coupons", `{}`, []string{"Content-Type", "text/plain"}, 415, "Unsupported Media Type"},
		{"too large", "POST", "/coupons", `{"id":"` + strings.Repeat("x", 5000) + `"}`, nil, 413, "Too Large"},
		{"no id", "POST", "/coupons", `{"stock":1}`, nil, 422, `"field":"id"`},
		{"bad id", "POST", "/coupons", `{"id":"a.b","stock":1}`, nil, 422, "want 1 to 64 of A-Z a-z 0-9 - _"},
		{"no stock", "POST", "/coupons", `{"id":"a","stock":0}`, nil, 422, "want 1 to 1000000"},
		{"too many buckets", "POST", "/coupons", `{"id":"a","stock":2,"buckets":3}`, nil, 422, "want 1 to 2"},
		{"no price", "POST", "/coupons", `{"id":"a","stock":2,"price":-1}`, nil, 422, "want 1 to 1000000"},
		{"no key", "POST", at + "/claim", "", nil, 400, "key-required"},
		{"bad key", "POST", at + "/claim-now", "", []string{"Idempotency-Key", "a b"}, 422, `"field":"Idempotency-Key"`},
		{"long key", "POST", at + "/claim", "", []string{"Idempotency-Key", long}, 422, "want 1 to 64"},
		{"no such coupon", "POST", "/coupons/nothing/claim", "", []string{"Idempotency-Key", "k"}, 404, "no coupon nothing"},
		{"bad coupon", "GET", "/coupons/a%2Fb", "", nil, 422, `"field":"id"`},
		{"bad receipt", "POST", at + "/receipts/x1/return", "", nil, 422, "b0.KEY"},
		{"signed bucket", "POST", at + "/receipts/b+0.k/return", "", nil, 422, "b0.KEY"},
		{"no such receipt", "GET", at + "/receipts/b0.k", "", nil, 404, "no receipt b0.k"},
		{"bad limit", "GET", at + "/receipts?limit=0", "", nil, 422, "want 1 to 500"},
		{"bad after", "GET", at + "/receipts?after=zzz", "", nil, 422, "b0.KEY"},
		{"no such claim", "GET", at + "/claims/k", "", nil, 404, "k has come to its payment"},
		{"no such page", "GET", "/nothing", "", nil, 404, "Not Found"},
		{"no such method", "DELETE", at, "", nil, 405, "Method Not Allowed"},
		{"another site", "POST", at + "/receipts/b0.k/return", "", []string{"Sec-Fetch-Site", "cross-site"}, 403, "cross-origin"},
		{"a name that leads here", "GET", at, "", []string{"Host", "evil.example:8090"}, 403, "cross-origin"},
	} {
		a := d.send(c.method, c.path, c.body, c.headers...)
		if p := a.problem(t); a.status != c.status || !strings.Contains(string(a.body), c.want) || p.Outcome != "refused" {
			t.Errorf("%s: got %d %s, want %d with %q", c.name, a.status, a.body, c.status, c.want)
		}
		if a.header.Get("Content-Security-Policy") == "" || a.header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: got the headers %v", c.name, a.header)
		}
	}
	d.audit(5, 0, 0)
}

// TestPage: the page is there, and its policy lets it run nothing but its own files.
func TestPage(t *testing.T) {
	t.Parallel()
	w := newWorld(t, wishes{})
	d := desk{t: t, url: w.desks[0]}
	for path, kind := range map[string]string{"/": "text/html", "/app.js": "text/javascript", "/style.css": "text/css", "/icon.svg": "image/svg+xml", "/problems": "text/plain"} {
		a := d.send(http.MethodGet, path, "")
		csp := a.header.Get("Content-Security-Policy")
		if a.status != http.StatusOK || !strings.HasPrefix(a.header.Get("Content-Type"), kind) ||
			!strings.HasPrefix(csp, "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';") || strings.Contains(csp, "unsafe") {
			t.Errorf("%s: got %d %v", path, a.status, a.header)
		}
		for _, bad := range []string{"innerHTML", "insertAdjacent", "document.write", "eval(", "style=", "onclick=", "src=\"http", "href=\"http", "import"} {
			if strings.Contains(string(a.body), bad) {
				t.Errorf("%s has %s", path, bad)
			}
		}
	}
}

// TestTooManyRequests: who finds the house full is told to come again.
func TestTooManyRequests(t *testing.T) {
	t.Parallel()
	waiting, resume := make(chan struct{}, 2), make(chan struct{})
	d := newWorld(t, wishes{inFlight: 2, stub: &paymentStub{booked: func(string) {
		waiting <- struct{}{}
		standStill(t, resume)
	}}}).open(t, 2, 2)[0]
	first, second := d.start("/claim", "a"), d.start("/claim", "b")
	await(t, waiting)
	await(t, waiting)
	a := d.send(http.MethodGet, "/counts", "")
	a.is(t, busy)
	if a.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	close(resume)
	into[receipt](t, <-first, http.StatusCreated)
	into[receipt](t, <-second, http.StatusCreated)
}
