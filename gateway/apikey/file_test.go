package apikey_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/gateway/apikey"
)

func newFile(tb testing.TB) string { return filepath.Join(tb.TempDir(), "keys.json") }

// add adds a key of the scopes read and lock.
func add(tb testing.TB, path string, e apikey.Entry) (apikey.Entry, string) {
	tb.Helper()
	if e.Scopes == 0 {
		e.Scopes = apikey.Read | apikey.Lock
	}
	e, text, err := apikey.Add(tb.Context(), path, e)
	if err != nil {
		tb.Fatal(err)
	}
	return e, text
}

func open(tb testing.TB, path string, o *apikey.Options) *apikey.File {
	tb.Helper()
	f, err := apikey.Open(path, o)
	if err != nil {
		tb.Fatal(err)
	}
	return f
}

func has(f *apikey.File, text string) bool {
	_, ok := f.Find(text)
	return ok
}

func TestAddAndFind(t *testing.T) {
	t.Parallel()
	path := newFile(t)
	e, text := add(t, path, apikey.Entry{Key: apikey.Key{Prefixes: []string{"coupon:", "order:"}, Rate: 2.5}, Label: "the shop"})
	if len(text) != len("fg_")+10+1+26 || !strings.HasPrefix(text, "fg_"+e.ID+"_") {
		t.Fatalf("got the key %q of %s", text, e.ID)
	}
	f := open(t, path, nil)
	k, ok := f.Find(text)
	if !ok || k.ID != e.ID || k.Scopes != apikey.Read|apikey.Lock || k.Rate != 2.5 || !slices.Equal(k.Prefixes, []string{"coupon:", "order:"}) {
		t.Fatalf("got %+v, %v", k, ok)
	}
	if !k.Covers("order:1") || k.Covers("orders") || k.Covers("") {
		t.Error("got other resources than those that begin with coupon: or order:")
	}
	secret := text[len(text)-26:]
	data, err := os.ReadFile(path)
	if err != nil || strings.Contains(string(data), secret) {
		t.Errorf("the file has the secret (%v): %s", err, data)
	}
	if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("got %v, %v, want the mode 0600", info.Mode(), err)
	}
	if list, err := os.ReadDir(filepath.Dir(path)); err != nil || len(list) != 2 {
		t.Errorf("got %v, %v, want the file and its lock", list, err)
	}
}

// TestForgedKeys: what is nearly a key is none.
func TestForgedKeys(t *testing.T) {
	t.Parallel()
	path := newFile(t)
	e, text := add(t, path, apikey.Entry{})
	other, otherText := add(t, path, apikey.Entry{})
	f := open(t, path, nil)
	last := text[:len(text)-1] + "A"
	if last == text {
		last = text[:len(text)-1] + "B"
	}
	secret := text[len(text)-26:]
	for _, forged := range []string{
		"", "fg_", "fg__", "fg_" + e.ID, "fg_" + e.ID + "_", text[:len(text)-1], text + "A", last, text + " ", " " + text, text + "_", text + "\n",
		strings.ToLower(text), strings.ToUpper(text), "FG_" + e.ID + "_" + secret, "fg_" + strings.ToUpper(e.ID) + "_" + secret,
		"fg_" + e.ID + "_" + strings.ToLower(secret), "fg_" + other.ID + "_" + secret, "fg_aaaaaaaaaa_" + secret, "fg_aaaaaaaaaa_" + strings.Repeat("\x00", 26),
		"fg_" + e.ID + "__" + secret, "fg_" + e.ID + secret, secret, e.ID, text + "," + otherText, "fg_" + e.ID + "_" + strings.Repeat("A", 100_000),
	} {
		if k, ok := f.Find(forged); ok {
			t.Errorf("got %+v for %.80q, want nothing", k, forged)
		}
	}
	if !has(f, text) || !has(f, otherText) {
		t.Error("a good key is not found")
	}
}

func TestExpiry(t *testing.T) {
	t.Parallel()
	path := newFile(t)
	synctest.Test(t, func(t *testing.T) {
		_, text := add(t, path, apikey.Entry{Expires: time.Now().Add(time.Hour)})
		f := open(t, path, nil)
		time.Sleep(time.Hour - time.Nanosecond)
		if !has(f, text) {
			t.Error("got nothing, want the key until it expires")
		}
		time.Sleep(time.Nanosecond)
		if has(f, text) {
			t.Error("got the key, want it expired")
		}
	})
}

// TestReadAgain: a change is seen a second later; while the file is missing or broken the keys of
// before stay, and this is told once.
func TestReadAgain(t *testing.T) {
	t.Parallel()
	path := newFile(t)
	synctest.Test(t, func(t *testing.T) {
		e, first := add(t, path, apikey.Entry{})
		var told []string
		f := open(t, path, &apikey.Options{OnTrouble: func(err error) { told = append(told, err.Error()) }})
		later := func() { time.Sleep(time.Second) }
		later()
		if !has(f, first) {
			t.Fatal("the key is not found")
		}
		_, second := add(t, path, apikey.Entry{})
		if has(f, second) {
			t.Error("the file was looked at twice within a second")
		}
		later()
		if !has(f, second) || !has(f, first) {
			t.Error("the key that was added is not found")
		}

		good, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for i, spoil := range []func() error{
			func() error { return os.WriteFile(path, []byte(`{"keys":[{`), 0o600) },
			func() error { return os.Remove(path) },
		} {
			if err := spoil(); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				later()
				if !has(f, first) || !has(f, second) {
					t.Errorf("case %d: the keys of before are gone", i)
				}
			}
			if len(told) != i+1 || !strings.Contains(told[i], "stay in force") {
				t.Fatalf("case %d: got told %q, want it once", i, told)
			}
		}
		if err := os.WriteFile(path, good, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := apikey.Remove(t.Context(), path, e.ID); err != nil {
			t.Fatal(err)
		}
		later()
		if has(f, first) || !has(f, second) {
			t.Error("the key that was removed is found, or the other one is not")
		}
		if len(told) != 2 {
			t.Errorf("got told %q", told)
		}
	})
}

// TestStrict: a file that is not whole is refused with the key's ID and what is allowed.
func TestStrict(t *testing.T) {
	t.Parallel()
	const id, hash = `"id":"abcdefgh23"`, `"sha256":"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"`
	const good = `{` + id + `,` + hash + `,"scopes":["read"],"created":"2026-01-01T00:00:00Z"}`
	with := func(members string) string { return `{"keys":[` + good[:len(good)-1] + `,` + members + `}]}` }
	path := newFile(t)
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, text := range []string{`{"keys":[]}`, `{"keys":[` + good + `]}`, with(`"prefixes":["a:"],"rate":0.001,"expires":"2026-02-01T00:00:00+01:00","label":"x"`)} {
		write(text)
		if _, err := apikey.Open(path, nil); err != nil {
			t.Errorf("%s: got %v", text, err)
		}
	}
	for _, c := range []struct{ text, want string }{
		{``, "readable"},
		{`{}`, "readable"},
		{`[]`, "readable"},
		{`null`, "null"},
		{`{"keys":null}`, "null"},
		{`{"keys":[]}{}`, "something follows"},
		{`{"keys":[],"keys":[]}`, `"keys" comes twice`},
		{`{"keys":[],"version":1}`, `"version"`},
		{`{"Keys":[]}`, `"Keys" is unknown`},
		{with(`"scope":["admin"]`), `"scope"`},
		{with(`"scopes":["admin"]`), `"scopes" comes twice`},
		{with(`"Scopes":["admin"]`), `"Scopes" is unknown`},
		{with(`"prefixes":null`), "null"},
		{with(`"prefixes":[]`), `abcdefgh23"): invalid prefixes []: want one or more`},
		{with(`"prefixes":["a/b"]`), `abcdefgh23"): invalid prefix "a/b": want`},
		{with(`"prefixes":[""]`), `abcdefgh23"): invalid prefix`},
		{with(`"prefixes":["a:","a:"]`), `abcdefgh23"): invalid prefix`},
		{with(`"rate":-1`), `abcdefgh23"): invalid rate -1: want 0.001`},
		{with(`"rate":0.0001`), "invalid rate"},
		{with(`"rate":1e7`), "invalid rate"},
		{with(`"rate":"1"`), "rate"},
		{with(`"label":"é"`), "invalid label"},
		{with(`"expires":"tomorrow"`), "readable"},
		{with(`"expires":"0001-01-01T00:00:00Z"`), "invalid expires"},
		{`{"keys":[` + good + `,` + good + `]}`, "key 2 (id abcdefgh23): another key has this id"},
		{`{"keys":[` + strings.Replace(good, `"read"`, `"root"`, 1) + `]}`, `abcdefgh23"): invalid scopes: want lock, write, read, admin`},
		{`{"keys":[` + strings.Replace(good, `["read"]`, `[]`, 1) + `]}`, "invalid scopes"},
		{`{"keys":[` + strings.Replace(good, `"read"`, `"read","read"`, 1) + `]}`, "invalid scopes"},
		{`{"keys":[` + strings.Replace(good, `abcdef"`, `abcde"`, 1) + `]}`, `abcdefgh23"): invalid sha256: want 64`},
		{`{"keys":[` + strings.Replace(good, `abcdef"`, `abcdefab"`, 1) + `]}`, "invalid sha256"},
		{`{"keys":[` + strings.Replace(good, `abcdef"`, `abcdeg"`, 1) + `]}`, "invalid sha256"},
		{`{"keys":[` + strings.Replace(good, `gh23"`, `gh2"`, 1) + `]}`, "key 1"},
		{`{"keys":[` + strings.Replace(good, `gh23"`, `GH23"`, 1) + `]}`, "invalid id"},
		{`{"keys":[{}]}`, "invalid id"},
	} {
		write(c.text)
		if _, err := apikey.Open(path, nil); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: got %v, want an error with %q", c.text, err, c.want)
		}
		if _, _, err := apikey.Add(t.Context(), path, apikey.Entry{Key: apikey.Key{Scopes: apikey.Read}}); err == nil {
			t.Errorf("%s: a key was added to it", c.text)
		}
	}
	if _, err := apikey.Open(path+".none", nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: got %v", err)
	}
	if _, err := apikey.Open(t.TempDir(), nil); err == nil {
		t.Error("a folder: got no error")
	}
}

// TestPermissions: who may write the file may make keys; who may read it is told of.
func TestPermissions(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		return // it has no such bits
	}
	path := newFile(t)
	_, text := add(t, path, apikey.Entry{})
	for _, mode := range []fs.FileMode{0o620, 0o602, 0o666} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := apikey.Open(path, nil); err == nil || !strings.Contains(err.Error(), "chmod go-w") {
			t.Errorf("mode %o: got %v", mode, err)
		}
	}
	for mode, want := range map[fs.FileMode]int{0o400: 0, 0o640: 0, 0o644: 1} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		told := 0
		f := open(t, path, &apikey.Options{OnTrouble: func(error) { told++ }})
		if !has(f, text) || told != want {
			t.Errorf("mode %o: told %d times, want %d", mode, told, want)
		}
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link.json")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	_, second := add(t, link, apikey.Entry{})
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("got %v, %v, want the mode kept", info.Mode(), err)
	}
	if !has(open(t, path, nil), second) {
		t.Error("the link was replaced, and not what it points to")
	}
}

// TestTwoWriters: none of the keys that are added at once is lost, while readers read whole files.
func TestTwoWriters(t *testing.T) {
	t.Parallel()
	path := newFile(t)
	_, first := add(t, path, apikey.Entry{})
	f := open(t, path, &apikey.Options{OnTrouble: func(err error) { t.Errorf("told %v", err) }})
	texts := make([]string, 12)
	var wg sync.WaitGroup
	for i := range texts {
		wg.Go(func() {
			_, text, err := apikey.Add(t.Context(), path, apikey.Entry{Key: apikey.Key{Scopes: apikey.Lock}})
			if err != nil {
				t.Error(err)
			}
			texts[i] = text
			if _, err := apikey.Open(path, nil); err != nil {
				t.Error(err)
			}
			if !has(f, first) {
				t.Error("the first key is not found")
			}
		})
	}
	wg.Wait()
	f = open(t, path, nil)
	for _, text := range texts {
		if !has(f, text) {
			t.Errorf("the key %.13s is lost", text)
		}
	}
}

func TestRotate(t *testing.T) {
	t.Parallel()
	path := newFile(t)
	synctest.Test(t, func(t *testing.T) {
		e, old := add(t, path, apikey.Entry{
			Key: apikey.Key{Scopes: apikey.Write, Prefixes: []string{"a:"}, Rate: 3}, Label: "worker", Expires: time.Now().Add(10 * time.Hour),
		})
		time.Sleep(4 * time.Hour)
		n, text, err := apikey.Rotate(t.Context(), path, e.ID, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if n.ID == e.ID || n.Scopes != e.Scopes || n.Rate != 3 || n.Label != "worker" || !slices.Equal(n.Prefixes, e.Prefixes) || n.Expires.Sub(n.Created) != 10*time.Hour {
			t.Errorf("got %+v, want one like %+v", n, e)
		}
		f := open(t, path, nil)
		if !has(f, old) || !has(f, text) {
			t.Error("within the grace one of the two is not found")
		}
		time.Sleep(time.Hour)
		if has(f, old) || !has(f, text) {
			t.Error("after the grace the old key is found, or the new one is not")
		}
		if _, _, err := apikey.Rotate(t.Context(), path, "aaaaaaaaaa", 0); !errors.Is(err, apikey.ErrNoKey) {
			t.Errorf("got %v, want ErrNoKey", err)
		}
		if err := apikey.Remove(t.Context(), path, "aaaaaaaaaa"); !errors.Is(err, apikey.ErrNoKey) {
			t.Errorf("got %v, want ErrNoKey", err)
		}
	})
}

func TestAddRefuses(t *testing.T) {
	t.Parallel()
	path := newFile(t)
	for _, e := range []apikey.Entry{
		{},
		{Key: apikey.Key{Scopes: 1 << 5}},
		{Key: apikey.Key{Scopes: apikey.Read, Prefixes: []string{"a b"}}},
		{Key: apikey.Key{Scopes: apikey.Read, Prefixes: make([]string, 101)}},
		{Key: apikey.Key{Scopes: apikey.Read, Rate: -1}},
		{Key: apikey.Key{Scopes: apikey.Read}, Label: strings.Repeat("x", 201)},
		{Key: apikey.Key{Scopes: apikey.Read}, Label: "a\nb"},
	} {
		if _, _, err := apikey.Add(t.Context(), path, e); fencing.OutcomeOf(err) != fencing.Refused {
			t.Errorf("%+v: got %v, want an *InvalidError", e, err)
		}
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want no file", err)
	}
}

func TestParseScope(t *testing.T) {
	t.Parallel()
	s, err := apikey.ParseScope([]string{"admin", "lock"})
	if err != nil || s != apikey.Admin|apikey.Lock || s.String() != "lock,admin" || !s.Has(apikey.Lock) || s.Has(apikey.Lock|apikey.Read) {
		t.Errorf("got %v, %v", s, err)
	}
	for _, names := range [][]string{nil, {""}, {"Lock"}, {"lock", "lock"}, {"all"}} {
		if s, err := apikey.ParseScope(names); fencing.OutcomeOf(err) != fencing.Refused {
			t.Errorf("%q: got %v, %v, want an *InvalidError", names, s, err)
		}
	}
}
