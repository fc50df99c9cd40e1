package fencing

import (
	"context"
	"slices"
)

// tokensKey is the context's key; its value is a carried.
type tokensKey struct{}

// carried returns the tokens of a context, one a resource; nobody changes them. It is a function
// because no way of printing a context looks into one: fmt asks no type that is inside of another
// how it wants to be printed.
type carried func() []Token

func carriedBy(ctx context.Context) []Token {
	if all, ok := ctx.Value(tokensKey{}).(carried); ok {
		return all()
	}
	return nil
}

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
	return context.WithValue(ctx, tokensKey{}, carried(func() []Token { return all }))
}

// FromContext returns the token that ctx carries for a resource.
func FromContext(ctx context.Context, resource string) (Token, bool) {
	for _, t := range carriedBy(ctx) {
		if t.Resource == resource {
			return t, true
		}
	}
	return Token{}, false
}

// ContextTokens returns all tokens that ctx carries, one a resource, in the order in which they
// were given. The slice is the caller's.
func ContextTokens(ctx context.Context) []Token {
	return slices.Clone(carriedBy(ctx))
}
