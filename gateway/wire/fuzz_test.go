package wire_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/gateway/wire"
)

// messages are those that the gateway reads.
func messages() []any {
	return []any{
		new(wire.LockRequest), new(wire.RenewRequest), new(wire.RenewAllRequest), new(wire.EvictRequest), new(wire.Commit), new(wire.RaiseRequest),
	}
}

// FuzzDecode: what is accepted is what encoding/json would have read, and can be said again.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		``, `{}`, `null`, `[]`, ` {} `, `{}{}`, `{"ttl":"30s","wait":"1m","label":"a","grant":"MFRGGZDFMZTWQ2LKNNWG23TPOB"}`, `{"ttl":30}`, `{"ttl":"1s","ttl":"2s"}`,
		`{"ttl":"1s","TTL":"2s"}`, `{"t\u0074l":"1s"}`, `{"tokens":[{"resource":"a","token":"1"}],"ops":[{"kind":"put","resource":"a","key":"b","value":"OQ=="}]}`,
		`{"ops":[{"kind":"add","resource":"a","key":"b","delta":"-1","min":"0"}],"lock":{"wait":"1s"}}`, `{"number":"34","reason":"gone"}`, `{"raise":"34"}`,
		"\xef\xbb\xbf{}", `{"label":"\ud800"}`, "{\"label\":\"\xff\"}", `{"a":{"a":{"a":{"a":{"a":{"a":{"a":1}}}}}}}`, `{"lock":null}`, `{"ttl":"1s"} x`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, v := range messages() {
			err := wire.Decode(data, v)
			if err != nil {
				e, isWire := errors.AsType[*wire.Error](err)
				if fencing.OutcomeOf(err) != fencing.Refused || isWire && e.Problem.Status != 400 || !isWire && !errors.Is(err, fencing.ErrInvalid) || len(err.Error()) > 600 {
					t.Fatalf("%T: got %T %v", v, err, err)
				}
				continue
			}
			same := reflect.New(reflect.TypeOf(v).Elem()).Interface()
			if err := json.Unmarshal(data, same); err != nil || !reflect.DeepEqual(v, same) {
				t.Fatalf("%T: encoding/json reads %+v, %v, and Decode %+v", v, same, err, v)
			}
			again, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Contains(again, []byte(":null")) {
				continue // it lacks what it must have, which is its handler's to refuse
			}
			back := reflect.New(reflect.TypeOf(v).Elem()).Interface()
			if err := wire.Decode(again, back); err != nil {
				t.Fatalf("%T: %s was read, said again as %s, and refused: %v", v, data, again, err)
			}
			if text, err := json.Marshal(back); err != nil || !bytes.Equal(text, again) {
				t.Fatalf("%T: %s became %s, %v", v, again, text, err)
			}
		}
	})
}

// FuzzTypes: integers, durations and values have their grammars, and come back as they went.
func FuzzTypes(f *testing.F) {
	for _, s := range []string{"", "0", "-0", "1", "-1", "01", "9223372036854775807", "9223372036854775808", "1s", "1h0m0s", "-1.5s", ".5s", "1d", "9999999999h", "YQ==", "YR==", "YQ", "-_==", "YQ=\n="} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		data, err := json.Marshal(s)
		if err != nil || strings.ContainsRune(s, '\ufffd') {
			return
		}
		if json.Unmarshal(data, &s) != nil { // what is no UTF-8 has been replaced
			return
		}
		var n wire.Int
		i, numErr := strconv.ParseInt(s, 10, 64)
		if err := json.Unmarshal(data, &n); (err == nil) != (numErr == nil && strconv.FormatInt(i, 10) == s) || err == nil && int64(n) != i {
			t.Fatalf("the integer %s: got %d, %v", data, n, err)
		}
		var d wire.Duration
		want, durErr := time.ParseDuration(s)
		if err := json.Unmarshal(data, &d); (err == nil) != (durErr == nil) || err == nil && time.Duration(d) != want {
			t.Fatalf("the duration %s: got %v, %v", data, time.Duration(d), err)
		}
		var b wire.Bytes
		if err := json.Unmarshal(data, &b); err == nil && base64.StdEncoding.EncodeToString(b) != s {
			t.Fatalf("the value %s was read as %x, of which the text is another", data, b)
		}
		for _, v := range []any{n, d, b} {
			text, err := json.Marshal(v)
			back := reflect.New(reflect.TypeOf(v))
			if err != nil || json.Unmarshal(text, back.Interface()) != nil || fmt.Sprint(back.Elem().Interface()) != fmt.Sprint(v) {
				t.Fatalf("%#v: %s, %v", v, text, err)
			}
		}
	})
}

// FuzzProblem: whatever a gateway, or what stands before it, answers: a client gets an error with
// an outcome.
func FuzzProblem(f *testing.F) {
	for _, s := range []string{
		`{}`, `{"type":"/problems/stale-token","status":412,"outcome":"refused","number":"33","highest":"34","reason":"superseded","resource":"coupon:42"}`,
		`{"type":"/problems/held","status":423,"outcome":"refused","remaining":"12s","number":"1"}`, `{"type":"about:blank","outcome":"unknown"}`, `{"type":"x","outcome":"failed"}`,
		`{"type":"/problems/below-minimum","op":0,"have":"1","want":"2"}`, `{"type":"/problems/held","remaining":"-12s"}`, `{"type":"https://example.org/problems/of-next-year","new":[1]}`,
		`{"type":"/problems/token-required","reason":"grant-required"}`, `{"type":"/problems/idempotency-key-reused","op":-1,"have":"0","want":"0"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var p wire.Problem
		if json.Unmarshal(data, &p) != nil {
			return
		}
		err := p.Err()
		if err == nil || fencing.OutcomeOf(err) == fencing.Applied || p.RetryAfter() < 0 {
			t.Fatalf("%s: got %v, retry after %d", data, err, p.RetryAfter())
		}
		_ = err.Error()
		// Passed on by a gateway in between, it is no better than it was.
		if again := wire.FromError(err).Err(); fencing.OutcomeOf(again) != fencing.OutcomeOf(err) {
			t.Fatalf("%s: got %v, passed on it is %v", data, err, again)
		}
	})
}
