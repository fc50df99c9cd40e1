package wire_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/gateway/wire"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/storage"
)

const canary = "CANARYCANARYCANARYCANARYCA"

// across sends an error over the wire: JSON and back.
func across(t *testing.T, err error) (wire.Problem, []byte, error) {
	t.Helper()
	data, jsonErr := json.Marshal(wire.FromError(err))
	if jsonErr != nil {
		t.Fatal(jsonErr)
	}
	var p wire.Problem
	if err := json.Unmarshal(data, &p); err != nil {
		t.Fatal(err)
	}
	return p, data, p.Err()
}

// TestErrorsRoundTrip: each error, plain and wrapped in what only the gateway may know,
// arrives as itself, and what was wrapped around it does not.
func TestErrorsRoundTrip(t *testing.T) {
	t.Parallel()
	stale := func(r fencing.Reason) *fencing.StaleError {
		return &fencing.StaleError{Token: fencing.Token{Resource: "coupon:42", Number: 33, Grant: canary}, Highest: 34, Reason: r}
	}
	bare := func(r fencing.Reason) *fencing.StaleError {
		e := stale(r)
		e.Token.Grant = ""
		return e
	}
	refused := func(reason error) *storage.RefusedError {
		return &storage.RefusedError{Op: 2, Resource: "coupon:42", Key: "stock", Reason: reason, Have: 0, Want: -7}
	}
	invalid := &fencing.InvalidError{What: "resource", Got: `"a b"`, Allowed: "something else"}
	held := &locking.HeldError{Resource: "coupon:42", Number: fencing.MaxNumber, Label: "worker 1", Remaining: 1500 * time.Millisecond}
	for _, c := range []struct {
		in     error
		out    error // what DeepEqual compares
		is     error
		slug   string
		status int
	}{
		{stale(fencing.Superseded), bare(fencing.Superseded), fencing.ErrStale, "stale-token", 412},
		{stale(fencing.Retired), bare(fencing.Retired), fencing.ErrStale, "stale-token", 412},
		{stale(fencing.Duplicate), bare(fencing.Duplicate), fencing.ErrStale, "stale-token", 412},
		{stale(fencing.Ungranted), bare(fencing.Ungranted), fencing.ErrStale, "stale-token", 412},
		{stale(fencing.GrantRequired), bare(fencing.GrantRequired), fencing.ErrStale, "token-required", 428},
		{invalid, invalid, fencing.ErrInvalid, "invalid", 422},
		{refused(storage.ErrVersionMismatch), refused(storage.ErrVersionMismatch), storage.ErrVersionMismatch, "version-mismatch", 412},
		{refused(storage.ErrBelowMinimum), refused(storage.ErrBelowMinimum), storage.ErrBelowMinimum, "below-minimum", 409},
		{refused(storage.ErrNotCounter), refused(storage.ErrNotCounter), storage.ErrNotCounter, "not-a-counter", 409},
		{refused(storage.ErrCounterRange), refused(storage.ErrCounterRange), storage.ErrCounterRange, "counter-range", 409},
		{
			&storage.RefusedError{Op: storage.NoOp, Resource: "coupon:42", Key: "order-7", Reason: storage.ErrKeyReused},
			&storage.RefusedError{Op: storage.NoOp, Resource: "coupon:42", Key: "order-7", Reason: storage.ErrKeyReused},
			storage.ErrKeyReused, "idempotency-key-reused", 422,
		},
		{storage.ErrNotFound, storage.ErrNotFound, storage.ErrNotFound, "record-not-found", 404},
		{held, held, locking.ErrHeld, "held", 423},
		{&locking.HeldError{Resource: "a"}, &locking.HeldError{Resource: "a"}, locking.ErrHeld, "held", 423},
		{locking.ErrLost, locking.ErrLost, locking.ErrLost, "lease-lost", 412},
		{locking.ErrExhausted, locking.ErrExhausted, locking.ErrExhausted, "numbers-exhausted", 409},
		{locking.ErrUnsettled, locking.ErrUnsettled, locking.ErrUnsettled, "unsettled", 409},
		{locking.ErrTooManyWaiters, locking.ErrTooManyWaiters, fencing.ErrFailed, "too-many-waiters", 503},
		{fencing.AsFailed(errors.New("password=hunter2")), nil, fencing.ErrFailed, "failed", 503},
		{fencing.AsUnknown(errors.New("password=hunter2")), nil, fencing.ErrUnknown, "unknown", 504},
		{errors.New("password=hunter2"), nil, fencing.ErrUnknown, "unknown", 504},
		// Other errors of the issuer and the store that say refused.
		{locking.ErrReleased, nil, nil, "refused", 409},
		// The door's own.
		{wire.TokenRequired("coupon:42", 1), &fencing.InvalidError{What: "token", Allowed: "a fencing token for coupon:42"}, fencing.ErrInvalid, "token-required", 428},
		{wire.TooLarge("at most 5 bytes"), &fencing.InvalidError{What: "body", Allowed: "at most 5 bytes"}, fencing.ErrInvalid, "too-large", 413},
		{wire.Malformed("x"), nil, nil, "malformed", 400},
		// Two facts joined: the least certain one speaks, as for fencing.OutcomeOf.
		{errors.Join(fencing.AsUnknown(errors.New("password=hunter2")), locking.ErrLost), nil, fencing.ErrUnknown, "unknown", 504},
		{errors.Join(held, fencing.AsFailed(errors.New("password=hunter2"))), nil, fencing.ErrFailed, "failed", 503},
		{errors.Join(locking.ErrLost, fencing.AsUnknown(errors.New("password=hunter2"))), nil, fencing.ErrUnknown, "unknown", 504},
	} {
		for _, in := range []error{c.in, fmt.Errorf("dial tcp 10.1.2.3:5432, password=hunter2: %w", c.in)} {
			p, data, got := across(t, in)
			if p.Slug() != c.slug || p.Status != c.status || p.Title == "" || p.Type != "/problems/"+c.slug {
				t.Errorf("%v: got %s %d %q, want %s %d", in, p.Type, p.Status, p.Title, c.slug, c.status)
			}
			if c.out != nil && !reflect.DeepEqual(got, c.out) {
				t.Errorf("%v: got %#v, want %#v", in, got, c.out)
			}
			if c.is != nil && !errors.Is(got, c.is) {
				t.Errorf("%v: got %v, which is not %v", in, got, c.is)
			}
			want := fencing.OutcomeOf(in)
			if errors.Is(in, storage.ErrNotFound) {
				want = fencing.Refused
			} else if o := fencing.OutcomeOf(got); o != want {
				t.Errorf("%v: got outcome %v, want %v", in, o, want)
			}
			if p.Outcome != want.String() {
				t.Errorf("%v: got outcome %q on the wire, want %v", in, p.Outcome, want)
			}
			for _, secret := range []string{canary, "hunter2", "10.1.2.3"} {
				if bytes.Contains(data, []byte(secret)) || strings.Contains(got.Error(), secret) {
					t.Errorf("%v: %q came across: %s", in, secret, data)
				}
			}
		}
	}
}

func TestUnknownProblemsKeepTheirOutcome(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		p    wire.Problem
		want fencing.Outcome
	}{
		{wire.Problem{Type: "/problems/of-next-year", Status: 409, Outcome: "refused"}, fencing.Refused},
		{wire.Problem{Type: "https://example.org/problems/of-next-year", Outcome: "failed"}, fencing.Failed},
		{wire.Problem{Type: "about:blank", Status: 500, Outcome: "unknown"}, fencing.Unknown},
		{wire.Problem{Type: "about:blank", Status: 403, Outcome: "nonsense"}, fencing.Unknown},
		{wire.Problem{}, fencing.Unknown},
		// Members that the error needs are missing.
		{wire.Problem{Type: "/problems/stale-token", Outcome: "refused"}, fencing.Refused},
		{wire.Problem{Type: "/problems/below-minimum", Outcome: "refused"}, fencing.Refused},
	} {
		err := c.p.Err()
		if got := fencing.OutcomeOf(err); got != c.want {
			t.Errorf("%+v: got %v, outcome %v, want %v", c.p, err, got, c.want)
		}
		if _, ok := errors.AsType[*wire.Error](err); !ok {
			t.Errorf("%+v: got %T, want *wire.Error", c.p, err)
		}
	}
}

// TestTableOnlyGrows holds the slugs, statuses and outcomes that were published. New rows
// are added here at the end; no line ever changes.
func TestTableOnlyGrows(t *testing.T) {
	t.Parallel()
	want := []string{
		"stale-token 412", "token-required 428", "invalid 422", "too-large 413", "version-mismatch 412", "below-minimum 409",
		"not-a-counter 409", "counter-range 409", "record-not-found 404", "held 423", "lease-lost 412", "numbers-exhausted 409",
		"unsettled 409", "failed 503", "unknown 504", "refused 409", "malformed 400", "not-found 404", "method-not-allowed 405",
		"unsupported-media-type 415", "raise-forbidden 403", "internal 500", "too-many-waiters 503", "idempotency-key-reused 422",
		"unauthorized 401", "forbidden 403", "rate-limited 429", "overloaded 503", "draining 503", "uri-too-long 414",
	}
	var got []string
	for _, p := range wire.Pages() {
		got = append(got, fmt.Sprint(p.Slug, " ", p.Status))
		if p.Title == "" || !strings.Contains(p.Text, "written") && !strings.Contains(p.Text, "changed") {
			t.Errorf("%s: the page does not say whether anything was written", p.Slug)
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestDecode(t *testing.T) {
	t.Parallel()
	ok := `{"ttl":"30s","wait":"1m0s","label":"a\u00e9","grant":"` + canary + `"}`
	var m wire.LockRequest
	if err := wire.Decode([]byte(ok), &m); err != nil || m.Label != "aé" || time.Duration(*m.Wait) != time.Minute {
		t.Fatalf("got %v, %+v", err, m)
	}
	if err := wire.Decode([]byte(" \n{}\t "), &m); err != nil {
		t.Errorf("white space: %v", err)
	}
	for _, bad := range []string{
		``, ` `, `{`, `}`, `{}}`, `{}{}`, `{} x`, `[]`, `"a"`, `1`, `null`, `true`, `{"ttl"}`, `{"ttl":}`, `{"ttl":"1s",}`, `{ttl:"1s"}`, `{'ttl':'1s'}`,
		`{"ttl":"1s","ttl":"1s"}`, `{"ttl":"1s","t\u0074l":"1s"}`, `{"TTL":"1s"}`, `{"Ttl":"1s"}`, `{"ttl":1}`, `{"ttl":null}`, `{"ttl":[]}`, `{"ttl":{}}`,
		`{"label":1}`, `{"label":null}`, `{"label":["a"]}`, `{"lable":"a"}`, `{"":"a"}`, `{"label ":"a"}`, "{\"label\":\"\xff\"}", `{"label":"\ud800"}`,
		`{"tokens":[{"resource":"a","resource":"b","token":"1"}]}`, `{"ttl":"1s"/* */}`, "\xef\xbb\xbf{}", `{"label":"a"} // x`, `NaN`, `{"ttl":1e999}`,
		strings.Repeat(`{"a":`, 100) + `1` + strings.Repeat(`}`, 100), strings.Repeat(`[`, 100000), `{"` + strings.Repeat("a", 1000) + `":1}`,
		`{"` + canary + `":1}`, `{"label":` + strings.Repeat("1", 100000) + `}`, "{\"label\":\"a\nb\"}", `{"label":"a` + "\x00" + `"}`,
	} {
		var m wire.LockRequest
		err := wire.Decode([]byte(bad), &m)
		e, isWire := errors.AsType[*wire.Error](err)
		if !isWire || e.Problem.Slug() != wire.SlugMalformed {
			t.Errorf("%.60q: got %v, want malformed", bad, err)
			continue
		}
		if n := len(err.Error()); n > 200 || strings.Contains(err.Error(), canary) {
			t.Errorf("%.60q: the error has %d bytes or shows the secret: %.200s", bad, n, err)
		}
	}
	for _, bad := range []string{
		`{"ttl":"1"}`, `{"ttl":""}`, `{"ttl":"soon"}`, `{"ttl":"1 s"}`, `{"wait":"9999999999h"}`, `{"ttl":"` + canary + `"}`,
	} {
		var m wire.LockRequest
		err := wire.Decode([]byte(bad), &m)
		if !errors.Is(err, fencing.ErrInvalid) || strings.Contains(fmt.Sprint(err), canary) {
			t.Errorf("%s: got %v, want an *InvalidError", bad, err)
		}
	}
}

func TestInt(t *testing.T) {
	t.Parallel()
	for _, want := range []wire.Int{0, 1, -1, fencing.MaxNumber, -fencing.MaxNumber, 1<<63 - 1, -1 << 63} {
		data, err := json.Marshal(want)
		var got wire.Int
		if err == nil {
			err = json.Unmarshal(data, &got)
		}
		if err != nil || got != want || data[0] != '"' {
			t.Errorf("%d: got %s, %d, %v", want, data, got, err)
		}
	}
	for _, bad := range []string{`""`, `"01"`, `"+1"`, `"-0"`, `"1.0"`, `"1e3"`, `" 1"`, `"9223372036854775808"`, `"0x1"`, `"1_0"`, `"١"`, `1`, `null`, `true`, `{}`} {
		var got wire.Int
		if err := json.Unmarshal([]byte(bad), &got); err == nil {
			t.Errorf("%s was read as %d", bad, got)
		}
	}
}

func TestBytes(t *testing.T) {
	t.Parallel()
	for n := range 300 {
		want := wire.Bytes(bytes.Repeat([]byte{byte(n)}, n))
		data, err := json.Marshal(want)
		var got wire.Bytes
		if err == nil {
			err = json.Unmarshal(data, &got)
		}
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d bytes: got %x, %v", n, got, err)
		}
	}
	for _, bad := range []string{`"a"`, `"YQ"`, `"YR=="`, `"YQ=\n="`, `"-_=="`, `" YQ=="`, `"YQ==YQ=="`, `1`, `null`, `["YQ=="]`} {
		var got wire.Bytes
		if err := json.Unmarshal([]byte(bad), &got); err == nil {
			t.Errorf("%s was read as %x", bad, got)
		}
	}
}

func TestOpsRoundTrip(t *testing.T) {
	t.Parallel()
	for _, want := range []storage.Op{
		storage.Put("r", "k", []byte("v")), storage.Put("r", "k", []byte{}), storage.Delete("r", "k"),
		storage.Add("r", "k", -1, 0), storage.Add("r", "k", 0, storage.NoMinimum), storage.Require("r", "k", 0), storage.Require("r", "k", 7),
	} {
		data, err := json.Marshal(wire.FromOp(want))
		if err != nil {
			t.Fatal(err)
		}
		var m wire.Op
		if err := wire.Decode(data, &m); err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		got, err := m.Op()
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, %v, want %+v", data, got, err, want)
		}
	}
}

func TestRedact(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                          "",
		"coupon:42":                 "coupon:42",
		canary:                      "[hidden]",
		"34." + canary + " x":       "34.[hidden] x",
		canary + "-" + canary:       "[hidden]-[hidden]",
		canary + canary:             "[hidden]",
		canary[1:]:                  canary[1:],
		"an ERROR in ALL CAPS 2345": "an ERROR in ALL CAPS 2345",
		"é" + canary + "é":          "é[hidden]é",
	} {
		if got := wire.Redact(in); got != want {
			t.Errorf("Redact(%q) = %q, want %q", in, got, want)
		}
	}
}

// TestDecodeElements: what a message may hold is counted before anything is made of it.
func TestDecodeElements(t *testing.T) {
	t.Parallel()
	list := func(member, element string, n int) []byte {
		return []byte(`{"` + member + `":[` + strings.Repeat(element+",", n-1) + element + `]}`)
	}
	var m wire.Commit
	if err := wire.Decode(list("ops", `{"resource":"a"}`, 20_000), &m); err != nil || len(m.Ops) != 20_000 {
		t.Errorf("got %d operations, %v", len(m.Ops), err)
	}
	var members strings.Builder
	for i := range 65 {
		members.WriteString(`,"` + strings.Repeat("a", i/26+1) + string(rune('a'+i%26)) + `":{}`)
	}
	for _, body := range [][]byte{
		list("ops", `{}`, 20_010), list("ops", `1`, 20_010), list("ops", `[]`, 20_010), list("ops", `[{}]`, 10_005),
		[]byte(`{` + members.String()[1:] + `}`),
	} {
		err := wire.Decode(body, &m)
		if e, ok := errors.AsType[*wire.Error](err); !ok || e.Problem.Slug() != wire.SlugMalformed || !strings.Contains(e.Problem.Detail, "too many") {
			t.Errorf("%.40s: got %v, want that it has too many", body, err)
		}
	}
	body := list("ops", `{}`, 2_700_000)
	before, after := new(runtime.MemStats), new(runtime.MemStats)
	runtime.ReadMemStats(before)
	_ = wire.Decode(body, &m)
	runtime.ReadMemStats(after)
	if got := (after.TotalAlloc - before.TotalAlloc) >> 20; got > 256 { // other tests count too; it took 734
		t.Errorf("%d MiB of it took %d MiB", len(body)>>20, got)
	}
}

// TestNewErrorRedacts: a detail may quote what a stranger sent.
func TestNewErrorRedacts(t *testing.T) {
	t.Parallel()
	e := wire.NewError(wire.SlugInvalid, "got 1."+strings.Repeat("A", 26))
	if want := "got 1.[hidden]"; e.Problem.Detail != want {
		t.Errorf("got %q, want %q", e.Problem.Detail, want)
	}
}
