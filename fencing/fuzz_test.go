package fencing_test

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/fencing"
)

// The grammars as DESIGN and the API's document write them.
var (
	nameGrammar   = regexp.MustCompile(`\A[A-Za-z0-9][A-Za-z0-9._:@-]{0,199}\z`)
	numberGrammar = regexp.MustCompile(`\A[1-9][0-9]{0,15}\z`)
	tokenGrammar  = regexp.MustCompile(`\A([1-9][0-9]{0,15})(\.[A-Z2-7]{26})?\z`)
)

func isNumber(text string) bool {
	n, err := strconv.ParseInt(text, 10, 64)
	return numberGrammar.MatchString(text) && err == nil && n <= fencing.MaxNumber
}

// wantVerdict compares an error with what the grammar says. Whatever is sent, the error is short.
func wantVerdict(t *testing.T, what, text string, ok bool, err error) {
	t.Helper()
	if ok != (err == nil) {
		t.Fatalf("%s %q: got %v, but the grammar says %t", what, text, err, ok)
	}
	if err != nil && (!errors.Is(err, fencing.ErrInvalid) || len(err.Error()) > 600) {
		t.Fatalf("%s %q: got %T with %d bytes", what, text, err, len(err.Error()))
	}
}

// FuzzName: what is a name is decided by the grammar and by nothing else.
func FuzzName(f *testing.F) {
	for _, s := range []string{"", "a", "coupon:42", "a/b", "..", "-a", "a\x00", "é", "a b", strings.Repeat("x", 200), strings.Repeat("x", 201), "a\n", "c\u043eupon"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		ok := nameGrammar.MatchString(s)
		wantVerdict(t, "the resource", s, ok, fencing.ValidateResource(s))
		wantVerdict(t, "the key", s, ok, fencing.ValidateKey(s))
	})
}

// FuzzNumber: a number has one text.
func FuzzNumber(f *testing.F) {
	for _, s := range []string{"", "0", "1", "01", "+1", "-1", "1 ", "9007199254740991", "9007199254740992", "1e3", "1_0", "\u0661", "99999999999999999999"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := fencing.ParseNumber(s)
		wantVerdict(t, "the number", s, isNumber(s), err)
		if err == nil && strconv.FormatInt(n, 10) != s {
			t.Fatalf("%q was read as %d", s, n)
		}
	})
}

// FuzzToken: what is accepted is written back as it was, and shows its secret nowhere else.
func FuzzToken(f *testing.F) {
	const grant = "MFRGGZDFMZTWQ2LKNNWG23TPOB"
	for _, s := range []string{
		"", "34", "34." + grant, "34.", "." + grant, "0." + grant, "034." + grant, "34." + grant + "A", "34." + strings.ToLower(grant),
		"9007199254740991." + grant, "9007199254740992." + grant, "34." + grant + ".", "34\x00." + grant, " 34." + grant,
	} {
		f.Add("coupon:42", s)
	}
	f.Add("a b", "34")
	f.Fuzz(func(t *testing.T, resource, s string) {
		tok, err := fencing.ParseToken(resource, s)
		m := tokenGrammar.FindStringSubmatch(s)
		wantVerdict(t, "the token", s, nameGrammar.MatchString(resource) && m != nil && isNumber(m[1]), err)
		if err != nil {
			// The text may be a secret with a slip in it: no error repeats it.
			if nameGrammar.MatchString(resource) && len(s) >= 20 && strings.Contains(err.Error(), s) {
				t.Fatalf("the error shows the text: %v", err)
			}
			return
		}
		if tok.Text() != s || tok.Resource != resource || tok.Validate() != nil {
			t.Fatalf("%q was read as %#v, %q", s, tok, tok.Text())
		}
		if shown := fmt.Sprintf("%v %+v %#v %s %q %d", tok, tok, tok, tok, tok, tok); tok.Grant != "" && strings.Contains(shown, tok.Grant) {
			t.Fatalf("the secret is shown: %s", shown)
		}
	})
}
