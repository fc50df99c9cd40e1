package fencehttp

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"github.com/fencegate/fencegate/fencing"
)

// problem is an error on the wire (RFC 9457), of the types that gateways have.
type problem struct {
	Type     string `json:"type"`
	Title    string `json:"title"`
	Status   int    `json:"status"`
	Detail   string `json:"detail,omitempty"`
	Outcome  string `json:"outcome"`
	Resource string `json:"resource,omitempty"`
	Number   string `json:"number,omitempty"`
	Highest  string `json:"highest,omitempty"`
	Reason   string `json:"reason,omitempty"`
}

func unreadable(err error) problem {
	p := problem{Type: "/problems/malformed", Title: "The request is not readable", Status: http.StatusBadRequest, Detail: err.Error()}
	if e, ok := errors.AsType[*fencing.InvalidError](err); ok {
		p.Type, p.Title, p.Status = "/problems/invalid", "A value is outside its grammar or range", http.StatusUnprocessableEntity
		p.Detail = "invalid " + e.What + ": want " + e.Allowed // what a stranger sent may be half a secret
	}
	return p
}

func required(resource string) problem {
	return problem{
		Type: "/problems/token-required", Title: "A token is required", Status: http.StatusPreconditionRequired,
		Detail: "send " + HeaderToken + " and " + HeaderResource, Resource: resource,
	}
}

// WriteStale answers a request whose token the store refused: 412, or 428 where it was a number
// without a grant id. It reports whether err is such a refusal; else nothing is written.
func WriteStale(w http.ResponseWriter, err error) bool {
	e, ok := errors.AsType[*fencing.StaleError](err)
	if !ok || fencing.OutcomeOf(err) != fencing.Refused {
		return false
	}
	p := problem{
		Type: "/problems/stale-token", Title: "The token is not current", Status: http.StatusPreconditionFailed, Detail: e.Error(),
		Resource: e.Token.Resource, Number: strconv.FormatInt(e.Token.Number, 10), Highest: strconv.FormatInt(e.Highest, 10), Reason: string(e.Reason),
	}
	if e.Reason == fencing.GrantRequired {
		p.Type, p.Title, p.Status = "/problems/token-required", "A token is required", http.StatusPreconditionRequired
	}
	w.Header().Set(HeaderMark, p.Highest)
	writeProblem(w, p)
	return true
}

// writeProblem answers with a refusal: nothing was written.
func writeProblem(w http.ResponseWriter, p problem) {
	p.Outcome = fencing.Refused.String()
	data, err := json.Marshal(p)
	if err != nil {
		panic(err) // strings always marshal
	}
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(data, '\n'))
}
