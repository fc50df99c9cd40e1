package storage_test

import (
	"errors"
	"reflect"
	"testing"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/storage"
)

const (
	grantA = "AAAAAAAAAAAAAAAAAAAAAAAAAA"
	grantB = "BBBBBBBBBBBBBBBBBBBBBBBBBB"
)

// TestEvaluate is the meaning of a commit, by example. The resource r has the mark 5 and
// the base 7, its record a is "10" at version 3, t is "text" at version 4; s has the mark
// 9 and nothing else.
func TestEvaluate(t *testing.T) {
	t.Parallel()
	view := func() storage.View {
		return storage.View{
			Marks: map[string]fencing.Mark{"r": {Number: 5, Grant: grantA}, "s": {Number: 9, Grant: grantB}},
			Bases: map[string]int64{"r": 7},
			Records: map[storage.RecordID]storage.Record{
				{Resource: "r", Key: "a"}: {Resource: "r", Key: "a", Value: []byte("10"), Version: 3},
				{Resource: "r", Key: "t"}: {Resource: "r", Key: "t", Value: []byte("text"), Version: 4},
				{Resource: "r", Key: "z"}: {Resource: "r", Key: "z", Value: []byte("1"), Version: 8},
			},
		}
	}
	r, s := fencing.Token{Resource: "r", Number: 5, Grant: grantA}, fencing.Token{Resource: "s", Number: 9, Grant: grantB}
	stale := func(t fencing.Token, highest int64, reason fencing.Reason) error {
		return &fencing.StaleError{Token: t, Highest: highest, Reason: reason}
	}
	old, twin, next := r, r, r
	old.Number, twin.Grant, next.Number = 4, grantB, 6
	no := func(op int, key string, reason error, have, want int64) error {
		return &storage.RefusedError{Op: op, Resource: "r", Key: key, Reason: reason, Have: have, Want: want}
	}
	rec := func(resource, key, value string, version int64) storage.Record {
		return storage.Record{Resource: resource, Key: key, Value: []byte(value), Version: version}
	}
	type (
		ops     = []storage.Op
		results = []storage.OpResult
		puts    = []storage.Record
		dels    = []storage.RecordID
		bases   = map[string]int64
	)
	for name, c := range map[string]struct {
		tokens  []fencing.Token
		ops     ops
		results results
		changes storage.Changes
		err     error
	}{
		"put over":         {ops: ops{storage.Put("r", "a", []byte("x"))}, results: results{{Version: 4}}, changes: storage.Changes{Put: puts{rec("r", "a", "x", 4)}}},
		"put new":          {ops: ops{storage.Put("r", "n", []byte("x"))}, results: results{{Version: 8}}, changes: storage.Changes{Put: puts{rec("r", "n", "x", 8)}}},
		"put without base": {ops: ops{storage.Put("s", "n", []byte("x"))}, results: results{{Version: 1}}, changes: storage.Changes{Put: puts{rec("s", "n", "x", 1)}}},
		"add":              {ops: ops{storage.Add("r", "a", 5, 0)}, results: results{{Version: 4, Counter: 15}}, changes: storage.Changes{Put: puts{rec("r", "a", "15", 4)}}},
		"add new":          {ops: ops{storage.Add("s", "n", -5, -5)}, results: results{{Version: 1, Counter: -5}}, changes: storage.Changes{Put: puts{rec("s", "n", "-5", 1)}}},
		"delete":           {ops: ops{storage.Delete("r", "a")}, results: results{{}}, changes: storage.Changes{Deleted: dels{{Resource: "r", Key: "a"}}}},
		"delete the highest": {
			ops: ops{storage.Delete("r", "z"), storage.Delete("r", "a")}, results: results{{}, {}},
			changes: storage.Changes{Deleted: dels{{Resource: "r", Key: "z"}, {Resource: "r", Key: "a"}}, Bases: bases{"r": 8}},
		},
		"delete nothing": {ops: ops{storage.Delete("r", "n")}, results: results{{}}},
		"delete and put": {
			ops: ops{storage.Delete("r", "z"), storage.Put("r", "n", []byte("x"))}, results: results{{}, {Version: 8}},
			changes: storage.Changes{Put: puts{rec("r", "n", "x", 8)}, Deleted: dels{{Resource: "r", Key: "z"}}, Bases: bases{"r": 8}},
		},
		"require":                {ops: ops{storage.Require("r", "a", 3), storage.Require("s", "a", 0)}, results: results{{Version: 3}, {}}},
		"require before a put":   {ops: ops{storage.Require("r", "a", 3), storage.Put("r", "a", nil)}, results: results{{Version: 4}, {Version: 4}}, changes: storage.Changes{Put: puts{{Resource: "r", Key: "a", Version: 4}}}},
		"require after a delete": {ops: ops{storage.Delete("r", "a"), storage.Require("r", "a", 3)}, results: results{{}, {}}, changes: storage.Changes{Deleted: dels{{Resource: "r", Key: "a"}}}},
		"mismatch":               {ops: ops{storage.Put("r", "n", nil), storage.Require("r", "a", 4)}, err: no(1, "a", storage.ErrVersionMismatch, 3, 4)},
		"must not be there":      {ops: ops{storage.Require("r", "a", 0)}, err: no(0, "a", storage.ErrVersionMismatch, 3, 0)},
		"must be there":          {ops: ops{storage.Require("r", "n", 7)}, err: no(0, "n", storage.ErrVersionMismatch, 0, 7)},
		"below":                  {ops: ops{storage.Add("r", "a", -1, 10)}, err: no(0, "a", storage.ErrBelowMinimum, 10, 10)},
		"range":                  {ops: ops{storage.Add("r", "a", storage.MaxCounter, 0)}, err: no(0, "a", storage.ErrCounterRange, 10, 0)},
		"no counter":             {ops: ops{storage.Add("r", "t", 1, 0)}, err: no(0, "t", storage.ErrNotCounter, 0, 0)},
		"old":                    {tokens: []fencing.Token{old}, ops: ops{storage.Add("r", "t", 1, 0)}, err: stale(old, 5, fencing.Superseded)},
		"twin":                   {tokens: []fencing.Token{twin}, err: stale(twin, 5, fencing.Duplicate)},
		"next":                   {tokens: []fencing.Token{next}, err: stale(next, 5, fencing.Ungranted)},
		"the first stale one":    {tokens: []fencing.Token{r, next, old}, err: stale(next, 5, fencing.Ungranted)},
		"a stale bystander":      {tokens: []fencing.Token{s, old}, ops: ops{storage.Put("s", "a", nil)}, err: stale(old, 5, fencing.Superseded)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.tokens == nil {
				c.tokens = []fencing.Token{r, s}
			}
			v := view()
			res, ch, err := storage.Evaluate(storage.Commit{Tokens: c.tokens, Ops: c.ops}, v)
			if !reflect.DeepEqual(err, c.err) {
				t.Errorf("got the error %v, want %v", err, c.err)
			}
			if err == nil && !reflect.DeepEqual(res.Ops, c.results) {
				t.Errorf("got the results %+v, want %+v", res.Ops, c.results)
			}
			if !reflect.DeepEqual(ch, c.changes) {
				t.Errorf("got the changes %+v, want %+v", ch, c.changes)
			}
			if !reflect.DeepEqual(v, view()) {
				t.Errorf("the view was changed: %+v", v)
			}
		})
	}
}

// TestEvaluateKeys: the record of the key comes before the fence, the fence before the data, and what
// is recorded is the data's word.
func TestEvaluateKeys(t *testing.T) {
	t.Parallel()
	r := fencing.Token{Resource: "r", Number: 5, Grant: grantA}
	old := fencing.Token{Resource: "r", Number: 4, Grant: grantB}
	view := func(a *storage.Answer) storage.View {
		return storage.View{
			Marks:   map[string]fencing.Mark{"r": {Number: 5, Grant: grantA}},
			Records: map[storage.RecordID]storage.Record{{Resource: "r", Key: "a"}: {Resource: "r", Key: "a", Value: []byte("10"), Version: 3}},
			Answer:  a,
		}
	}
	commit := func(t fencing.Token, minimum int64) storage.Commit {
		return storage.Commit{Tokens: []fencing.Token{t}, Ops: []storage.Op{storage.Add("r", "a", -1, minimum)}, Key: "k"}
	}
	sold := []storage.OpResult{{Version: 4, Counter: 9}}
	below := &storage.RefusedError{Resource: "r", Key: "a", Reason: storage.ErrBelowMinimum, Have: 10, Want: 10}

	res, ch, err := storage.Evaluate(commit(r, 0), view(nil))
	applied := &storage.Answer{Fingerprint: commit(r, 0).Fingerprint(), Number: 5, Result: storage.Result{Ops: sold}}
	if err != nil || res.Replayed || !reflect.DeepEqual(res.Ops, sold) || !reflect.DeepEqual(ch.Answer, applied) || len(ch.Put) != 1 {
		t.Errorf("the first time: got %+v, %+v, %v, want applied with the answer %+v", res, ch, err, applied)
	}
	_, ch, err = storage.Evaluate(commit(r, 10), view(nil))
	refused := &storage.Answer{Fingerprint: commit(r, 10).Fingerprint(), Number: 5, Refused: below}
	if !reflect.DeepEqual(err, error(below)) || !reflect.DeepEqual(ch, storage.Changes{Answer: refused}) {
		t.Errorf("refused by the data: got %+v, %v, want only the answer %+v", ch, err, refused)
	}
	_, ch, err = storage.Evaluate(commit(old, 0), view(nil))
	if !errors.Is(err, fencing.ErrStale) || !reflect.DeepEqual(ch, storage.Changes{}) {
		t.Errorf("refused by the fence: got %+v, %v, want stale, and nothing to write", ch, err)
	}
	unkeyed := commit(r, 0)
	unkeyed.Key = ""
	if _, ch, err = storage.Evaluate(unkeyed, view(nil)); err != nil || ch.Answer != nil {
		t.Errorf("without a key: got the answer %+v, %v, want none", ch.Answer, err)
	}

	for name, by := range map[string]fencing.Token{"the mark": r, "a stale token": old} {
		res, ch, err = storage.Evaluate(commit(by, 0), view(applied))
		if err != nil || !res.Replayed || !reflect.DeepEqual(res.Ops, sold) || !reflect.DeepEqual(ch, storage.Changes{}) {
			t.Errorf("again with %s: got %+v, %+v, %v, want the answer of then, and nothing to write", name, res, ch, err)
		}
		if _, ch, err = storage.Evaluate(commit(by, 10), view(refused)); !reflect.DeepEqual(err, error(below)) || !reflect.DeepEqual(ch, storage.Changes{}) {
			t.Errorf("refused again with %s: got %+v, %v, want %v", name, ch, err, below)
		}
		reused := &storage.RefusedError{Op: storage.NoOp, Resource: "r", Key: "k", Reason: storage.ErrKeyReused}
		if _, ch, err = storage.Evaluate(commit(by, 1), view(applied)); !reflect.DeepEqual(err, error(reused)) || !reflect.DeepEqual(ch, storage.Changes{}) {
			t.Errorf("another commit with %s: got %+v, %v, want %v", name, ch, err, reused)
		}
	}
	if applied.Result.Replayed {
		t.Error("the record was changed")
	}
	torn := *applied // a record that does not fit its commit is not guessed at
	torn.Result.Ops = nil
	if _, _, err = storage.Evaluate(commit(r, 0), view(&torn)); !errors.Is(err, storage.ErrKeyReused) {
		t.Errorf("a record without its results: got %v, want refused", err)
	}
}

// TestEvaluateMissingMark: a view without a mark refuses; a backend that forgets to load
// one does not open the gate.
func TestEvaluateMissingMark(t *testing.T) {
	t.Parallel()
	token := fencing.Token{Resource: "r", Number: 1, Grant: grantA}
	_, _, err := storage.Evaluate(storage.Commit{Tokens: []fencing.Token{token}}, storage.View{})
	if !errors.Is(err, fencing.ErrStale) {
		t.Errorf("got %v, want a *StaleError", err)
	}
}

func TestParseCounter(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{
		"0": 0, "1": 1, "-1": -1, "10": 10, "100000000000000": 1e14, "9007199254740991": storage.MaxCounter,
		"-9007199254740991": -storage.MaxCounter,
	} {
		if got, ok := storage.ParseCounter([]byte(text)); !ok || got != want {
			t.Errorf("ParseCounter(%q) = %d, %t, want %d", text, got, ok, want)
		}
		if got := string(storage.Counter(want)); got != text {
			t.Errorf("Counter(%d) = %q, want %q", want, got, text)
		}
	}
	for _, text := range []string{
		"", "x", "01", "-0", "+1", "1.5", " 1", "1 ", "1e3", "9007199254740992", "-9007199254740992", "-90071992547409910", "0x1", "1_0", "-",
	} {
		if got, ok := storage.ParseCounter([]byte(text)); ok {
			t.Errorf("ParseCounter(%q) = %d, want none", text, got)
		}
	}
}
