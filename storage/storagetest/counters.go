package storagetest

import (
	"errors"
	"fmt"

	"github.com/fencegate/fencegate/storage"
)

func adds(r *run) {
	t := r.held(5)
	for _, c := range []struct {
		delta, minimum int64
		want           string
	}{
		{5, 0, "5"},
		{-3, 0, "2"},
		{-2, 0, "0"},
		{0, 0, "0"},
		{-7, storage.NoMinimum, "-7"},
		{2, -5, "-5"},
		{1, -4, "-4"},
		{14, 10, "10"},
		{0, 10, "10"},
	} {
		res, err := r.tryAdd(t, "n", c.delta, c.minimum)
		if err != nil {
			r.Fatalf("add %d: %v", c.delta, err)
		}
		if got := string(storage.Counter(res.Ops[0].Counter)); got != c.want {
			r.Errorf("add %d: got %s, want %s", c.delta, got, c.want)
		}
		r.wantRecord(t.Resource, "n", c.want, res.Ops[0].Version)
	}
	_, err := r.tryAdd(t, "n", -1, 10)
	r.wantRefused(err, storage.RefusedError{Resource: t.Resource, Key: "n", Reason: storage.ErrBelowMinimum, Have: 10, Want: 10})
	_, err = r.tryAdd(t, "n", 1, 12) // the sum counts, not the direction
	r.wantRefused(err, storage.RefusedError{Resource: t.Resource, Key: "n", Reason: storage.ErrBelowMinimum, Have: 10, Want: 12})
	_, err = r.tryAdd(t, "none", 0, 1)
	r.wantRefused(err, storage.RefusedError{Resource: t.Resource, Key: "none", Reason: storage.ErrBelowMinimum, Want: 1})
	r.wantAbsent(t.Resource, "none")
	r.wantRecord(t.Resource, "n", "10", 9)
	r.commit([]storage.Op{storage.Add(t.Resource, "zero", 0, storage.NoMinimum)}, t)
	r.wantRecord(t.Resource, "zero", "0", 1)
	// A counter that Put wrote, and one record that Put overwrites.
	r.put(t, "n", "-41")
	r.commit([]storage.Op{storage.Add(t.Resource, "n", -1, storage.NoMinimum)}, t)
	r.wantRecord(t.Resource, "n", "-42", 11)
	// Two counters in one commit do not see each other.
	got := r.commit([]storage.Op{storage.Add(t.Resource, "n", 50, 0), storage.Add(t.Resource, "m", 1, 0)}, t)
	if got[0].Counter != 8 || got[1].Counter != 1 {
		r.Errorf("got %+v, want the sums 8 and 1", got)
	}
}

// addEdges: sums are exact to the last number, and no text is ever 1e+14.
func addEdges(r *run) {
	const most = int64(storage.MaxCounter)
	t := r.held(5)
	for i, c := range []struct {
		have, delta, minimum int64
		want                 error
	}{
		{99999999999999, 1, 0, nil}, // 1e14, where Lua's own text changes
		{100000000000000, 1, 0, nil},
		{999999999999999, 1, 0, nil},
		{1 << 52, 1, 0, nil},
		{most - 2, 1, 0, nil},
		{most - 1, 1, 0, nil},
		{most, 0, 0, nil},
		{most, -1, 0, nil},
		{most, 1, 0, storage.ErrCounterRange},
		{most, most, 0, storage.ErrCounterRange},
		{most - 1, 2, most, storage.ErrCounterRange},
		{0, most, most, nil},
		{1, most, most, storage.ErrCounterRange},
		{0, -most, -most, nil},
		{-1, -most, -most, storage.ErrCounterRange},
		{-most, 0, -most, nil},
		{-most, -1, -most, storage.ErrCounterRange},
		{-most, -1, 0, storage.ErrCounterRange}, // the range before the minimum
		{-most, -most, -most, storage.ErrCounterRange},
		{-most, most, -most, nil},
		{-most, most, 1, storage.ErrBelowMinimum},
		{-most + 1, -1, -most, nil},
		{most, -1, most, storage.ErrBelowMinimum},
		{most - 1, 1, most, nil},
		{-99999999999999, -1, -most, nil},
	} {
		key := fmt.Sprintf("n%d", i)
		r.put(t, key, string(storage.Counter(c.have)))
		res, err := r.tryAdd(t, key, c.delta, c.minimum)
		if c.want != nil {
			want := storage.RefusedError{Resource: t.Resource, Key: key, Reason: c.want, Have: c.have}
			if errors.Is(c.want, storage.ErrBelowMinimum) {
				want.Want = c.minimum
			}
			r.wantRefused(err, want)
			r.wantRecord(t.Resource, key, string(storage.Counter(c.have)), 1)
			continue
		}
		if err != nil || res.Ops[0].Counter != c.have+c.delta {
			r.Errorf("%d + %d: got %+v, %v", c.have, c.delta, res.Ops, err)
		}
		r.wantRecord(t.Resource, key, string(storage.Counter(c.have+c.delta)), 2)
	}
}

// notCounters: one number has one text.
func notCounters(r *run) {
	t := r.held(5)
	for i, value := range []string{
		"", "x", "01", "00", "-0", "-01", "+1", "+0", "1.5", "1.0", "1.", ".5", " 1", "1 ", " ", "-", "+", "--1", "1-", "1e3", "1e14",
		"9007199254740992", "-9007199254740992", "9223372036854775807", "9223372036854775808", "-9223372036854775808",
		"18446744073709551616", "99999999999999999", "99999999999999999999999", "1\n", "\n1", "\t1", "1\x00", "\x001", "0x10", "1_000",
		"1,000", "nan", "inf", "-inf", "NaN", "null", "true", "１", "١", "−1", "1\u00a0", "\xff",
	} {
		key := fmt.Sprintf("n%d", i)
		r.put(t, key, value)
		_, err := r.tryAdd(t, key, 0, storage.NoMinimum)
		r.wantRefused(err, storage.RefusedError{Resource: t.Resource, Key: key, Reason: storage.ErrNotCounter})
		r.wantRecord(t.Resource, key, value, 1)
		if r.Failed() {
			r.Fatalf("for the value %q", value)
		}
	}
}
