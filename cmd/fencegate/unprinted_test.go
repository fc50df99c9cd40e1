//go:build unix

package main

import (
	"bytes"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/gateway/apikey"
)

// full is a disk that takes nothing.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left") }

// TestUnprinted lets commands work whose output cannot be written: they say that they did.
func TestUnprinted(t *testing.T) {
	t.Parallel()
	r := newRig(t, fencing.Strict)
	for _, line := range []string{
		"records put coupon:42 stock 10 --wait 1s --output json",
		"records add coupon:42 stock 2 --wait 1s",
		"records add coupon:42 stock 2 --wait 1s -o json",
		`commit -o text <{"lock":{},"ops":[{"kind":"add","resource":"coupon:42","key":"stock","delta":"1"}]}`,
		`commit -o json <{"lock":{},"ops":[{"kind":"add","resource":"coupon:42","key":"stock","delta":"1"}]}`,
		"records delete coupon:42 other --wait 1s -o json",
	} {
		args, stdin, _ := strings.Cut(line, "<")
		status, said := runFull(stdin, append(strings.Fields(args), "--url", r.url)...)
		if want := "fencegate: it was written, but the result could not be printed: no space left\n"; status != exitFailed || said != want {
			t.Errorf("%s: exit status %d, %q, want 1, %q", line, status, said, want)
		}
	}
	if rec, err := r.store.Get(t.Context(), "coupon:42", "stock"); err != nil || string(rec.Value) != "16" {
		t.Errorf("the record is %s, %v, want 16", rec.Value, err)
	}
}

// TestUnprintedKey makes keys whose text nobody gets: they are taken away again.
func TestUnprintedKey(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "keys.json")
	old, _, err := apikey.Add(t.Context(), file, apikey.Entry{Key: apikey.Key{Scopes: apikey.Read}})
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"keys add --scope lock", "keys add --scope lock -o json", "keys rotate " + old.ID} {
		status, said := runFull("", append(strings.Fields(line), "--file", file)...)
		if status != exitFailed || !strings.Contains(said, "could not be printed, and was removed again: no space left") {
			t.Errorf("%s: exit status %d, %q", line, status, said)
		}
	}
	if list, err := apikey.List(file); err != nil || len(list) != 1 || list[0].ID != old.ID {
		t.Errorf("the keys are %v, %v, want the first one", list, err)
	}
}

// runFull runs a command line with nowhere to print to, and returns what it says.
func runFull(stdin string, args ...string) (status int, said string) {
	var errs bytes.Buffer
	var in io.Reader = strings.NewReader(stdin)
	status = run(args, in, full{}, &errs)
	return status, errs.String()
}
