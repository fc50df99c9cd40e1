package fencing_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/fencing"
)

func TestContext(t *testing.T) {
	t.Parallel()
	a1 := fencing.Token{Resource: "a", Number: 1, Grant: strings.Repeat("A", fencing.GrantLen)}
	a2 := fencing.Token{Resource: "a", Number: 2, Grant: strings.Repeat("B", fencing.GrantLen)}
	b7 := fencing.Token{Resource: "b", Number: 7, Grant: strings.Repeat("C", fencing.GrantLen)}

	outer := fencing.NewContext(t.Context(), a1)
	inner := fencing.NewContext(outer, b7, a2)
	for _, tc := range []struct {
		name string
		ctx  context.Context
		want []fencing.Token
	}{
		{"none", t.Context(), nil},
		{"one", outer, []fencing.Token{a1}},
		{"another, and a newer one", inner, []fencing.Token{b7, a2}},
		{"nothing added", fencing.NewContext(inner), []fencing.Token{b7, a2}},
		{"twice", fencing.NewContext(t.Context(), a1, a2), []fencing.Token{a2}},
	} {
		if got := fencing.ContextTokens(tc.ctx); !slices.Equal(got, tc.want) {
			t.Errorf("%s: got %v, want %v", tc.name, got, tc.want)
		}
		for _, r := range []string{"a", "b", "A", ""} {
			k := slices.IndexFunc(tc.want, func(tok fencing.Token) bool { return tok.Resource == r })
			got, ok := fencing.FromContext(tc.ctx, r)
			if ok != (k >= 0) || ok && got != tc.want[k] {
				t.Errorf("%s: FromContext(%q) = %v, %t", tc.name, r, got, ok)
			}
		}
	}
	// What is handed out is a copy.
	fencing.ContextTokens(inner)[0] = a1
	if got, _ := fencing.FromContext(inner, "b"); got != b7 {
		t.Errorf("got %v, want %v", got, b7)
	}
}

// TestContextIsNotPrinted: no verb shows a grant id, in letters, in hexadecimal or as bytes.
func TestContextIsNotPrinted(t *testing.T) {
	t.Parallel()
	grant := strings.Repeat("QZ", fencing.GrantLen/2)
	ctx := fencing.NewContext(t.Context(), fencing.Token{Resource: "a", Number: 1, Grant: grant}, fencing.Token{Resource: "b", Number: 2, Grant: grant})
	child, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, v := range []any{ctx, child, &ctx, struct{ ctx context.Context }{ctx}, []context.Context{ctx}, ctx.Value} {
		for _, flags := range []string{"", "+", "#", "+#", " ", "# ", "0"} {
			for _, verb := range "vTtbcdoOqxXUeEfFgGspw" {
				s := fmt.Sprintf("%"+flags+string(verb), v)
				for _, secret := range []string{"QZQZ", "515a515a", "515A515A", "51 5a 51", "51 5A 51", "81 90 81", "0x51, 0x5a"} {
					if strings.Contains(s, secret) {
						t.Errorf("%%%s%c of %T shows a secret: %s", flags, verb, v, s)
					}
				}
			}
		}
	}
	if data, err := json.Marshal(struct{ Ctx context.Context }{ctx}); err == nil && strings.Contains(string(data), "QZQZ") {
		t.Errorf("JSON shows a secret: %s", data)
	}
}
