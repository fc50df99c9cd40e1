package apikey_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencegate/fencegate/gateway/apikey"
)

// TestNoticesEachChange: another file, another length or another time is enough of a change.
func TestNoticesEachChange(t *testing.T) {
	t.Parallel()
	written := time.Unix(1_700_000_000, 0)
	for name, change := range map[string]func(path string, next []byte) error{
		"file": func(path string, next []byte) error {
			if err := os.WriteFile(path+".new", next, 0o600); err != nil {
				return err
			}
			if err := os.Chtimes(path+".new", written, written); err != nil {
				return err
			}
			return os.Rename(path+".new", path)
		},
		"length": func(path string, next []byte) error {
			if err := os.WriteFile(path, append(next, ' '), 0o600); err != nil {
				return err
			}
			return os.Chtimes(path, written, written)
		},
		"time": func(path string, next []byte) error {
			if err := os.WriteFile(path, next, 0o600); err != nil {
				return err
			}
			return os.Chtimes(path, written, written.Add(time.Second))
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			path, other := newFile(t), newFile(t)
			_, before := add(t, path, apikey.Entry{})
			_, after := add(t, other, apikey.Entry{}) // a text of the same length
			next, err := os.ReadFile(other)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(path, written, written); err != nil {
				t.Fatal(err)
			}
			f := open(t, path, nil)
			if err := change(path, next); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			if has(f, before) || !has(f, after) {
				t.Errorf("another %s: it was not read again", name)
			}
		})
	}
}

// TestReadsOnce: what was read is not read again until it is changed.
func TestReadsOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		path := newFile(t)
		_, text := add(t, path, apikey.Entry{})
		if err := os.Chmod(path, 0o644); err != nil {
			t.Fatal(err)
		}
		told := 0 // with every reading, as others may read it
		f := open(t, path, &apikey.Options{OnTrouble: func(error) { told++ }})
		changed := time.Unix(1_700_000_000, 0)
		if err := os.Chtimes(path, changed, changed); err != nil {
			t.Fatal(err)
		}
		for range 5 {
			time.Sleep(time.Second)
			has(f, text)
		}
		if told != 2 {
			t.Errorf("it was read %d times, want twice", told)
		}
	})
}

// TestFileBounds: a file has so many bytes and keys at most.
func TestFileBounds(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "keys.json")
	for _, c := range []struct {
		text, want string
	}{
		{`{"keys":[]}` + strings.Repeat(" ", 32<<20-10), "larger than 32 MiB"},
		{manyKeys(10_001), "it has 10001 keys, want at most 10000"},
	} {
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := apikey.Open(path, nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
	if err := os.WriteFile(path, []byte(manyKeys(10_000)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := apikey.Add(t.Context(), path, apikey.Entry{Key: apikey.Key{Scopes: apikey.Read}}); err == nil || !strings.Contains(err.Error(), "no more fit") {
		t.Errorf("one more: got %v", err)
	}
}

func manyKeys(n int) string {
	const letters = "abcdefghij"
	var b strings.Builder
	for i := range n {
		id := []byte(fmt.Sprintf("%010d", i))
		for j := range id {
			id[j] = letters[id[j]-'0']
		}
		fmt.Fprintf(&b, `,{"id":"%s","sha256":"%s","scopes":["read"],"created":"2026-01-01T00:00:00Z"}`, id, strings.Repeat("ab", 32))
	}
	return `{"keys":[` + b.String()[1:] + `]}`
}

// TestRotateProlongsNothing: the old key's own end stays, if it is before the grace's.
func TestRotateProlongsNothing(t *testing.T) {
	t.Parallel()
	path := newFile(t)
	synctest.Test(t, func(t *testing.T) {
		e, old := add(t, path, apikey.Entry{Expires: time.Now().Add(time.Hour)})
		_, text, err := apikey.Rotate(t.Context(), path, e.ID, 100*time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		list, err := apikey.List(path)
		if err != nil || len(list) != 2 || !list[0].Expires.Equal(e.Expires) {
			t.Errorf("got %+v, %v, want the old key's end at %v", list, err, e.Expires)
		}
		f := open(t, path, nil)
		if !has(f, old) || !has(f, text) {
			t.Error("one of the two is not found")
		}
		time.Sleep(59 * time.Minute)
		if !has(f, old) {
			t.Error("the old key has ended early")
		}
		time.Sleep(time.Minute)
		if has(f, old) {
			t.Error("the old key was prolonged")
		}
	})
}
