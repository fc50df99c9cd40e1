package fencing_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/fencing"
)

const canary = "CANARYCANARYCANARYCANARYCA"

func TestTokenTextRoundTrip(t *testing.T) {
	t.Parallel()
	for _, want := range []fencing.Token{
		{Resource: "coupon:42", Number: 34, Grant: canary},
		{Resource: "coupon:42", Number: 34},
		{Resource: "c", Number: fencing.MaxNumber, Grant: fencing.NewGrant()},
	} {
		got, err := fencing.ParseToken(want.Resource, want.Text())
		if err != nil || got != want {
			t.Errorf("ParseToken(Text) = %v, %v, want %v", got, err, want)
		}
	}
}

func TestParseTokenRefuses(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", ".", "0", "-1", "+1", "01", "1.", "1." + canary[1:], "1." + canary + "A", "1." + strings.ToLower(canary),
		"1.AAAAAAAAAAAAAAAAAAAAAAAAA1", "9007199254740992", "9007199254740992." + canary, "99999999999999999999", "1e3", " 1", "1 ",
		"1." + canary + ".x", "0x1", "1_0", "١",
	} {
		_, err := fencing.ParseToken("coupon:42", text)
		if !errors.Is(err, fencing.ErrInvalid) {
			t.Errorf("ParseToken(%q) = %v, want ErrInvalid", text, err)
		}
		if err != nil && strings.Contains(err.Error(), canary[:20]) {
			t.Errorf("ParseToken(%q): the error shows the secret: %v", text, err)
		}
	}
	if _, err := fencing.ParseToken("no spaces", "1"); !errors.Is(err, fencing.ErrInvalid) {
		t.Errorf("got %v for a bad resource, want ErrInvalid", err)
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a", "0", "coupon:42", "A.b_c:d@e-f", strings.Repeat("x", 200)} {
		if err := fencing.ValidateResource(name); err != nil {
			t.Errorf("ValidateResource(%q) = %v, want nil", name, err)
		}
	}
	for _, name := range []string{
		"", ":a", "-a", ".", "..", "a/b", "a b", "a\x00", "a\n", "é", "a%3A", "{a}", strings.Repeat("x", 201), "a*", "a?b", "a'b",
	} {
		if err := fencing.ValidateResource(name); !errors.Is(err, fencing.ErrInvalid) {
			t.Errorf("ValidateResource(%q) = %v, want ErrInvalid", name, err)
		}
		if err := fencing.ValidateKey(name); !errors.Is(err, fencing.ErrInvalid) {
			t.Errorf("ValidateKey(%q) = %v, want ErrInvalid", name, err)
		}
	}
}

func TestInvalidErrorIsShortAndRefused(t *testing.T) {
	t.Parallel()
	err := fencing.ValidateResource(strings.Repeat("/", 100000))
	if n := len(err.Error()); n > 300 {
		t.Errorf("the error has %d bytes: %.100s", n, err)
	}
	if got := fencing.OutcomeOf(err); got != fencing.Refused {
		t.Errorf("outcome = %v, want refused", got)
	}
}

func TestNewGrantIsValidAndNew(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 1000 {
		g := fencing.NewGrant()
		if err := fencing.ValidateGrant(g); err != nil {
			t.Fatalf("NewGrant made a grant id that is refused: %v", err)
		}
		if seen[g] {
			t.Fatal("NewGrant made one grant id twice")
		}
		seen[g] = true
	}
}

// TestSecretsStayHidden prints everything that holds a grant id in every way that Go
// has, and looks for the grant id.
func TestSecretsStayHidden(t *testing.T) {
	t.Parallel()
	token := fencing.Token{Resource: "coupon:42", Number: 34, Grant: canary}
	mark := fencing.Mark{Number: 34, Grant: canary}
	type nested struct {
		Token fencing.Token
		Mark  fencing.Mark
	}
	values := []any{
		token, &token, mark, &mark,
		nested{token, mark},
		[]fencing.Token{token},
		map[string]fencing.Token{"a": token},
		&fencing.StaleError{Token: token, Highest: 35, Reason: fencing.Superseded},
	}
	for _, v := range values {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x", "%X", "%t"} {
			if out := fmt.Sprintf(verb, v); strings.Contains(strings.ToUpper(out), canary) || strings.Contains(out, fmt.Sprintf("%x", canary)) {
				t.Errorf("Sprintf(%q, %T) shows the grant id: %s", verb, v, out)
			}
		}
		out, err := json.Marshal(v)
		if err != nil {
			t.Errorf("json of %T: %v", v, err)
		}
		var log bytes.Buffer
		slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "v", v)
		slog.New(slog.NewTextHandler(&log, nil)).Info("x", "v", v)
		if strings.Contains(string(out)+log.String(), canary) {
			t.Errorf("%T: JSON or log shows the grant id: %s %s", v, out, log.String())
		}
	}
	var back fencing.Token
	if err := json.Unmarshal([]byte(`{"resource":"a","number":"1"}`), &back); !errors.Is(err, fencing.ErrInvalid) {
		t.Errorf("a token was read from JSON without its grant id: %v", err)
	}
}

func TestOutcomes(t *testing.T) {
	t.Parallel()
	plain := errors.New("connection reset")
	for _, c := range []struct {
		err  error
		want fencing.Outcome
	}{
		{nil, fencing.Applied},
		{plain, fencing.Unknown},
		{context.DeadlineExceeded, fencing.Unknown},
		{fencing.AsFailed(plain), fencing.Failed},
		{fencing.AsUnknown(plain), fencing.Unknown},
		{fencing.AsUnknown(fencing.AsFailed(plain)), fencing.Failed},
		{fmt.Errorf("wrapped: %w", fencing.AsFailed(plain)), fencing.Failed},
		{fmt.Errorf("wrapped: %w", &fencing.StaleError{}), fencing.Refused},
		{errors.Join(fencing.AsFailed(plain), fencing.AsUnknown(plain)), fencing.Unknown},
		{errors.Join(&fencing.StaleError{}, fencing.AsFailed(plain)), fencing.Failed},
		{fmt.Errorf("%w: %w", plain, fencing.AsFailed(plain)), fencing.Failed},
		{errors.Join(plain, plain), fencing.Unknown},
	} {
		if got := fencing.OutcomeOf(c.err); got != c.want {
			t.Errorf("OutcomeOf(%v) = %v, want %v", c.err, got, c.want)
		}
	}
	if err := fencing.AsFailed(plain); !errors.Is(err, fencing.ErrFailed) || !errors.Is(err, plain) || errors.Is(err, fencing.ErrUnknown) {
		t.Errorf("AsFailed(%v) = %v: wrong identity", plain, err)
	}
	if err := fencing.AsPartial(fencing.AsFailed(&fencing.StaleError{})); fencing.OutcomeOf(err) != fencing.Unknown ||
		!errors.Is(err, fencing.ErrUnknown) || errors.Is(err, fencing.ErrFailed) || !errors.Is(err, fencing.ErrStale) {
		t.Errorf("AsPartial = %v: wrong identity", err)
	}
	if fencing.AsPartial(nil) != nil || fencing.AsFailed(nil) != nil || fencing.AsUnknown(nil) != nil {
		t.Error("nil did not stay nil")
	}
}
