package apikey_test

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/fencegate/fencegate/gateway/apikey"
)

// FuzzFile: a file of keys is refused, or all of its keys are in order, and come back whole when
// the file is written again.
func FuzzFile(f *testing.F) {
	const (
		hash = `"sha256":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"`
		row  = `{"id":"aaaaaaaaaa",` + hash + `,"scopes":["lock","write"],"created":"2026-01-01T00:00:00Z"`
	)
	for _, s := range []string{
		``, `{}`, `{"keys":[]}`, `{"keys":null}`, `[]`, `{"keys":[` + row + `}]}`, `{"keys":[` + row + `},` + row + `}]}`,
		`{"keys":[` + row + `,"prefixes":["shop:"],"rate":5,"label":"a","expires":"2030-01-01T00:00:00Z"}]}`, `{"keys":[` + row + `,"prefixes":[]}]}`,
		`{"keys":[` + row + `,"rate":-1}]}`, `{"keys":[` + row + `,"Scopes":["admin"]}]}`, `{"keys":[` + row + `,"scopes":["admin"]}]}`, `{"keys":[]} x`,
		`{"keys":[{"id":"aaaaaaaaaa","sha256":"00","scopes":["lock"]}]}`, `{"keys":[` + row + `,"expires":"0001-01-01T00:00:00Z"}]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "keys.json")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		ring, err := apikey.Open(path, nil)
		list, listErr := apikey.List(path)
		if (err == nil) != (listErr == nil) {
			t.Fatalf("Open says %v, List %v", err, listErr)
		}
		if err != nil {
			if len(err.Error()) > 2000 {
				t.Fatalf("the error has %d bytes", len(err.Error()))
			}
			return
		}
		for _, e := range list {
			if err := e.Validate(); err != nil || e.ID == "" {
				t.Fatalf("%+v was accepted: %v", e, err)
			}
			if k, ok := ring.Find("fg_" + e.ID + "_wrong"); ok {
				t.Fatalf("a wrong secret found %+v", k)
			}
		}
		added, text, err := apikey.Add(t.Context(), path, apikey.Entry{Key: apikey.Key{Scopes: apikey.Read}})
		if err != nil {
			if len(list) >= apikey.MaxKeys {
				return
			}
			t.Fatal(err)
		}
		again, err := apikey.List(path)
		if err != nil || len(again) != len(list)+1 {
			t.Fatalf("got %d keys of %d, %v", len(again), len(list), err)
		}
		for i, e := range list {
			if got := again[i]; got.ID != e.ID || !reflect.DeepEqual(got.Key, e.Key) || got.Label != e.Label || !got.Created.Equal(e.Created) || !got.Expires.Equal(e.Expires) {
				t.Fatalf("key %d was %+v and became %+v", i, e, got)
			}
		}
		ring, err = apikey.Open(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if k, ok := ring.Find(text); !ok || k.ID != added.ID {
			t.Fatalf("the new key is not found: %+v", k)
		}
	})
}
