package main

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"
)

// TestLoad sells under load while processes are stopped, on everything there is.
func TestLoad(t *testing.T) {
	t.Parallel()
	if !canStop {
		t.Fatal("this system has no SIGSTOP: the test needs one that has")
	}
	each(t, func(t *testing.T, w wishes) {
		b := flags(t, w.lock, w.store)
		args := append([]string{"load", "--for", "3s", "--clients", "6", "--stock", "30", "--ttl", "300ms"}, b.args()...)
		var out, errs strings.Builder
		if status := run(t.Context(), args, &out, &errs); status != 0 {
			t.Fatalf("exit status %d\n%s%s", status, out.String(), errs.String())
		}
		if !strings.HasSuffix(out.String(), "= 30: it adds up\n") || strings.Contains(out.String(), "WRONG") {
			t.Errorf("got\n%s", out.String())
		}
		rows := map[string]string{}
		for line := range strings.Lines(out.String()) {
			n, what, _ := strings.Cut(strings.TrimSpace(line), " ")
			rows[what] = n
		}
		for _, what := range []string{"of them without a receipt", "requests without an answer to the end"} {
			if rows[what] != "0" {
				t.Errorf("%s: %s\n%s", what, rows[what], out.String())
			}
		}
		if rows["times a process was stopped past its leases"] == "0" {
			t.Errorf("nothing was stopped\n%s", out.String())
		}
		t.Logf("\n%s", out.String())
	})
}

// TestLoadSeesWhatIsWrong: a report that cannot complain would prove nothing.
func TestLoadSeesWhatIsWrong(t *testing.T) {
	t.Parallel()
	sold := func(id, key string) receipt { return receipt{ID: id, Key: key, State: receiptSold} }
	told := func(change func(*tally)) tally {
		v := tally{sold: map[string]receipt{"a": sold("b0.a", "a")}, returned: map[string]bool{}, open: map[string]bool{}, openBack: map[string]bool{}}
		if change != nil {
			change(&v)
		}
		return v
	}
	in := func(change func(*books)) books {
		k := books{audit: audit{Stock: 10, Left: 9, Sold: 1}, receipts: map[string]receipt{"b0.a": sold("b0.a", "a")}}
		if change != nil {
			change(&k)
		}
		return k
	}
	for _, c := range []struct {
		name string
		told tally
		in   books
		want string
	}{
		{"all is well", told(nil), in(nil), ""},
		{"one too many is left", told(nil), in(func(k *books) { k.audit.Left = 10 }), "left 10 + sold 1"},
		{"oversold", told(nil), in(func(k *books) { k.audit.Left, k.audit.Stock = -1, 0 }), "-1 are left"},
		{"a receipt is lost", told(func(v *tally) { v.sold["b"] = sold("b0.b", "b") }), in(nil), "b0.b of key b is lost"},
		{"one key, two receipts", told(nil), in(func(k *books) {
			k.receipts["b1.a"] = sold("b1.a", "a")
			k.audit.Left, k.audit.Sold = 8, 2
		}), "two receipts"},
		{"a receipt from nowhere", told(nil), in(func(k *books) {
			k.receipts["b1.x"] = sold("b1.x", "x")
			k.audit.Left, k.audit.Sold = 8, 2
		}), "nobody was given the receipt b1.x"},
		{"a return is lost", told(func(v *tally) { v.returned["b0.a"] = true }), in(nil), "b0.a was returned, and is not"},
		{"a return from nowhere", told(nil), in(func(k *books) {
			r := k.receipts["b0.a"]
			r.State = receiptReturned
			k.receipts["b0.a"] = r
			k.audit.Left, k.audit.Sold = 10, 0
		}), "nobody returned"},
		{"never paid", told(nil), in(func(k *books) { k.audit.WithoutPayment = []string{"b0.a"} }), "never paid"},
		{"given twice", told(func(v *tally) { v.twice = []string{"a"} }), in(nil), "given two receipts"},
	} {
		got := strings.Join(compare(c.told, c.in), "\n")
		if !strings.Contains(got, c.want) || (c.want == "") != (got == "") {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

// TestCommandLine: what makes no sense is refused before anything is opened.
func TestCommandLine(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ args, want string }{
		{"--lock zookeeper", "want memory, redis or postgres"},
		{"--store memory", "want sqlite, redis or postgres"},
		{"--lock redis", "need --redis-url"},
		{"--store postgres", "need --postgres-url"},
		{"--ttl 1ms", "want 100ms to 1h"},
		{"--ttl 10s --max-hold 1s", "want at least --ttl"},
		{"--payment-delay 1m", "want 0 to 5s"},
		{"--payment-fail NaN", "want 0 to 0.9"},
		{"--nonsense", "not defined: -nonsense"},
		{"serve now", "no further arguments"},
		{"load --for 1ms", "want 1s to 1h"},
		{"load --clients 0", "want 1 to 256"},
		{"load --stock 3 --buckets 4", "want 1 to 3"},
		{"load --lock postgres", "need --postgres-url"},
	} {
		var errs strings.Builder
		if status := run(t.Context(), strings.Fields(c.args), io.Discard, &errs); status != 2 || !strings.Contains(errs.String(), c.want) {
			t.Errorf("%s: got status %d and %q, want 2 and %q", c.args, status, errs.String(), c.want)
		}
	}
	var out strings.Builder
	for _, help := range []string{"--help", "serve --help", "load --help"} {
		if status := run(t.Context(), strings.Fields(help), &out, &out); status != 0 {
			t.Errorf("%s: got status %d", help, status)
		}
	}
	for _, want := range []string{"couponapi load", "--help", "fencegate migrate up --database URL", "-clients"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the help lacks %q", want)
		}
	}
}

// TestNoSchema: a database without the schema is not migrated silently, and the message says what
// to do.
func TestNoSchema(t *testing.T) {
	t.Parallel()
	b := backendFlags{lock: "memory", store: "postgres", postgresURL: emptyDatabase(t)}
	_, err := b.open(t.Context())
	if err == nil || !strings.Contains(err.Error(), "fencegate migrate up --database URL") {
		t.Errorf("got %v", err)
	}
}

// TestServe starts the program, sees what it prints, and ends it in the middle of a request, which
// is answered.
func TestServe(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	reader, writer := io.Pipe()
	status := make(chan int, 1)
	go func() {
		status <- run(ctx, []string{"--listen", "127.0.0.1:0", "--payment-delay", "500ms"}, writer, io.Discard)
		_ = writer.Close()
	}()
	var greeting [4096]byte
	n, err := reader.Read(greeting[:])
	if err != nil {
		t.Fatal(err)
	}
	text := string(greeting[:n])
	if strings.Count(text, "curl ") != 3 {
		t.Errorf("got the greeting\n%s", text)
	}
	d := desk{t: t, url: strings.TrimSuffix(strings.Fields(text)[1], "/"), coupon: "42"}
	into[coupon](t, d.send("POST", "/coupons", `{"id": "42", "stock": 10, "buckets": 2}`), 201)
	done := d.start("/claim", "order-1")
	for until := time.Now().Add(30 * time.Second); ; { // the payment is under way
		if a := d.send("GET", "/coupons/42/claims/order-1", ""); a.status == 200 {
			break
		}
		if time.Now().After(until) {
			t.Fatal("the claim does not begin")
		}
	}
	stop()
	into[receipt](t, <-done, 201)
	if got := <-status; got != 0 {
		t.Errorf("got exit status %d", got)
	}
}
