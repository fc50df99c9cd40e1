package fencing

import (
	"context"
	"slices"
)

// tokensKey is the context's key; its value is a []Token, one a resource, never changed.
type tokensKey struct{}

// NewContext returns a context that carries tokens down a chain of calls, to the one that
// writes: those of ctx, and the given ones, which replace others of the same resource. That a
// context carries a token says nothing of whether it is still current; a store does. To print a
// context shows no token.
func NewContext(ctx context.Context, tokens ...Token) context.Context {
	all := ContextTokens(ctx)
	for _, t := range tokens {
		all = slices.DeleteFunc(all, func(old Token) bool { return old.Resource == t.Resource })
		all = append(all, t)
	}
	return context.WithValue(ctx, tokensKey{}, all)
}

// FromContext returns the token that ctx carries for a resource.
func FromContext(ctx context.Context, resource string) (Token, bool) {
	all, _ := ctx.Value(tokensKey{}).([]Token)
	for _, t := range all {
		if t.Resource == resource {
			return t, true
		}
	}
	return Token{}, false
}

// ContextTokens returns all tokens that ctx carries, one a resource, in the order in which they
// were given. The slice is the caller's.
func ContextTokens(ctx context.Context) []Token {
	all, _ := ctx.Value(tokensKey{}).([]Token)
	return slices.Clone(all)
}
