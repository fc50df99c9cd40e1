package main

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/locking"
)

// kind is a kind of problem: what a client may build on.
type kind struct {
	slug    string
	status  int
	outcome fencing.Outcome // of the request: refused and failed changed nothing
	title   string
}

var (
	badRequest     = kind{"bad-request", http.StatusBadRequest, fencing.Refused, "the request cannot be read"}
	invalid        = kind{"invalid", http.StatusUnprocessableEntity, fencing.Refused, "a value is outside what is allowed"}
	noKey          = kind{"key-required", http.StatusBadRequest, fencing.Refused, "the header Idempotency-Key is missing"}
	notFound       = kind{"not-found", http.StatusNotFound, fencing.Refused, "there is no such thing"}
	exists         = kind{"exists", http.StatusConflict, fencing.Refused, "the coupon exists and is another one"}
	soldOut        = kind{"sold-out", http.StatusConflict, fencing.Refused, "sold out"}
	returned       = kind{"already-returned", http.StatusConflict, fencing.Refused, "the receipt was returned before"}
	declined       = kind{"payment-declined", http.StatusPaymentRequired, fencing.Refused, "the payment was declined"}
	paymentUnknown = kind{"payment-unknown", http.StatusBadGateway, fencing.Unknown, "the payment service gave no answer"}
	refundOpen     = kind{"refund-open", http.StatusBadGateway, fencing.Unknown, "decided, but the money is not back yet"}
	unsettled      = kind{"unsettled", http.StatusServiceUnavailable, fencing.Unknown, "the claim is not finished"}
	busy           = kind{"busy", http.StatusServiceUnavailable, fencing.Failed, "too many want the same; try again"}
	storeFailed    = kind{"failed", http.StatusServiceUnavailable, fencing.Failed, "the store or the lock failed; nothing was written"}
	storeUnknown   = kind{"unknown", http.StatusGatewayTimeout, fencing.Unknown, "the answer of the store or the lock was lost"}
	refused        = kind{"refused", http.StatusConflict, fencing.Refused, "the store refused the request"}
	crossOrigin    = kind{"cross-origin", http.StatusForbidden, fencing.Refused, "another site's page may not do this"}
)

// kinds are all kinds, for the page /problems.
func kinds() []kind {
	return []kind{
		badRequest, invalid, noKey, notFound, exists, soldOut, returned, declined,
		paymentUnknown, refundOpen, unsettled, busy, storeFailed, storeUnknown, refused, crossOrigin,
	}
}

// problem is an error as the client sees it (RFC 9457).
type problem struct {
	Type    string `json:"type"`
	Title   string `json:"title"`
	Status  int    `json:"status"`
	Detail  string `json:"detail,omitempty"`
	Field   string `json:"field,omitempty"`   // which value was wrong
	Outcome string `json:"outcome,omitempty"` // refused and failed: nothing happened; unknown: send it again, with its key

	cause error // for the log
}

// Error implements error.
func (p *problem) Error() string {
	if p.Detail == "" {
		return p.Title
	}
	return p.Title + ": " + p.Detail
}

// Unwrap returns what the client does not see.
func (p *problem) Unwrap() error { return p.cause }

// because makes a problem of a kind, with a detail that is fit for strangers.
func (k kind) because(format string, args ...any) *problem {
	return &problem{
		Type: "/problems#" + k.slug, Title: k.title, Status: k.status,
		Detail: fmt.Sprintf(format, args...), Outcome: k.outcome.String(),
	}
}

// field is because for one value of the request.
func (k kind) field(name, format string, args ...any) *problem {
	p := k.because(format, args...)
	p.Field = name
	return p
}

// is reports whether err is a problem of this kind.
func (k kind) is(err error) bool {
	p, ok := errors.AsType[*problem](err)
	return ok && p.Type == "/problems#"+k.slug
}

// toProblem translates any error. What it says of the inside stays behind, as the cause.
func toProblem(err error) *problem {
	if p, ok := errors.AsType[*problem](err); ok {
		return p
	}
	if e, ok := errors.AsType[*echo.HTTPError](err); ok {
		return &problem{Type: "about:blank", Title: http.StatusText(e.Code), Status: e.Code, Outcome: fencing.Refused.String(), cause: err}
	}
	k := storeUnknown
	switch {
	case errors.Is(err, locking.ErrHeld), errors.Is(err, locking.ErrTooManyWaiters), overtaken(err):
		k = busy
	case fencing.OutcomeOf(err) == fencing.Refused:
		k = refused
	case fencing.OutcomeOf(err) == fencing.Failed:
		k = storeFailed
	}
	p := k.because("")
	p.cause = err
	return p
}

// retryable says that the same request, sent again, may well succeed.
func (p *problem) retryable() bool { return p.Status >= http.StatusInternalServerError }
