package fencehttp_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/fencing/fencehttp"
)

// FuzzHandler: whatever the headers say, a handler gets valid tokens of different resources, the
// ones that were sent, or is not reached.
func FuzzHandler(f *testing.F) {
	f.Add("34."+grantA, "coupon:42", true)
	f.Add("34."+grantA+", 7."+grantB, "coupon:42,order:7", true)
	f.Add("34."+grantA, "", false)
	f.Add("34", "coupon:42", true)
	f.Add(",,", ",,", true)
	f.Add("", "", true)
	f.Fuzz(func(t *testing.T, texts, names string, named bool) {
		reached := false
		h := fencehttp.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			reached = true
			tokens := fencing.ContextTokens(r.Context())
			seen := map[string]bool{}
			for _, tok := range tokens {
				if err := tok.Validate(); err != nil || seen[tok.Resource] || !strings.Contains(texts, tok.Text()) || named && !strings.Contains(names, tok.Resource) {
					t.Errorf("%q, %q: got %v, %v", texts, names, tok, err)
				}
				seen[tok.Resource] = true
			}
			if len(tokens) != strings.Count(texts, ",")+1 {
				t.Errorf("%q: got %d tokens", texts, len(tokens))
			}
		}), &fencehttp.Options{Resource: func(*http.Request) string { return "coupon:42" }})
		r := httptest.NewRequest(http.MethodPut, "/", http.NoBody)
		r.Header[fencehttp.HeaderToken] = []string{texts}
		if named {
			r.Header[fencehttp.HeaderResource] = []string{names}
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if want := w.Code == http.StatusOK; reached != want || !want && w.Code != http.StatusBadRequest && w.Code != http.StatusUnprocessableEntity {
			t.Errorf("%q, %q: got status %d, reached = %t", texts, names, w.Code, reached)
		}
	})
}
