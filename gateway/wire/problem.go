package wire

import (
	"errors"
	"strings"
	"time"

	"github.com/fencegate/fencegate/fencing"
)

// Base is what a problem's type begins with; its slug follows.
const Base = "/problems/"

// Problem is an error on the wire (RFC 9457). It contains no secret and nothing of the
// gateway's inside. Which of the extensions are present hangs on the type.
type Problem struct {
	Type     string `json:"type"`
	Title    string `json:"title"`
	Status   int    `json:"status"`
	Detail   string `json:"detail,omitempty"`
	Outcome  string `json:"outcome"`            // refused, failed or unknown
	Instance string `json:"instance,omitempty"` // the same id is in the gateway's log

	Resource  string    `json:"resource,omitempty"`
	Number    *Int      `json:"number,omitempty"`    // the token's or the holder's
	Highest   *Int      `json:"highest,omitempty"`   // the number of the store's mark
	Reason    string    `json:"reason,omitempty"`    // why a token was refused
	Label     string    `json:"label,omitempty"`     // the holder's
	Remaining *Duration `json:"remaining,omitempty"` // of the holder's hold; until a request is within the rate
	Op        *int      `json:"op,omitempty"`        // the index of the operation
	Key       string    `json:"key,omitempty"`
	Have      *Int      `json:"have,omitempty"` // the version or the counter as it is
	Want      *Int      `json:"want,omitempty"` // the version or the minimum asked for
	What      string    `json:"what,omitempty"` // which value was invalid
	Got       string    `json:"got,omitempty"`
	Allowed   string    `json:"allowed,omitempty"`
	Released  *bool     `json:"released,omitempty"` // of a release: whether the lock was freed all the same
}

// Slug returns the last part of the problem's type.
func (p Problem) Slug() string { return p.Type[strings.LastIndexByte(p.Type, '/')+1:] }

// RetryAfter returns how long to wait before the next attempt, in whole seconds, 0
// where the problem says nothing of it.
func (p Problem) RetryAfter() int {
	switch p.Slug() {
	case SlugHeld, SlugRateLimited:
		if p.Remaining != nil {
			return max(1, int((time.Duration(*p.Remaining)+time.Second-1)/time.Second))
		}
		return 1
	case SlugFailed, SlugTooManyWaiters, SlugOverloaded, SlugDraining:
		return 1
	}
	return 0
}

// FromError translates an error of the issuer, the store or the gateway's own door. The
// texts of errors that this package does not know are left behind.
func FromError(err error) Problem {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Problem
	}
	for i := range table {
		if k := &table[i]; k.from != nil {
			p := k.problem()
			if k.from(err, &p) {
				return p
			}
		}
	}
	switch fencing.OutcomeOf(err) {
	case fencing.Refused:
		return kindOf(SlugRefused).problem()
	case fencing.Failed:
		return kindOf(SlugFailed).problem()
	}
	return kindOf(SlugUnknown).problem()
}

// Err translates a problem back to the error it stands for. One whose type is not in the
// table, or whose members do not fit it, is an [*Error] with the outcome it names.
func (p Problem) Err() error {
	if k := kindOf(p.Slug()); k != nil && k.to != nil {
		if err := k.to(&p); err != nil {
			return err
		}
	}
	return &Error{p}
}

// Error is a problem as an error, where the table has no richer one.
type Error struct {
	Problem Problem
}

// NewError returns the problem of a slug in the table with a detail that is fit for
// strangers.
func NewError(slug, detail string) *Error {
	p := kindOf(slug).problem()
	p.Detail = Redact(detail)
	return &Error{p}
}

// Error implements error.
func (e *Error) Error() string {
	s := e.Problem.Title
	if s == "" {
		s = e.Problem.Type
	}
	if e.Problem.Detail != "" {
		s += ": " + e.Problem.Detail
	}
	if e.Problem.Instance != "" {
		s += " (" + e.Problem.Instance + ")"
	}
	return "gateway: " + s
}

// Outcome is the problem's; unknown where it names none.
func (e *Error) Outcome() fencing.Outcome {
	switch e.Problem.Outcome {
	case fencing.Refused.String():
		return fencing.Refused
	case fencing.Failed.String():
		return fencing.Failed
	}
	return fencing.Unknown
}

// Is matches fencing.ErrFailed and fencing.ErrUnknown by the outcome, and another *Error by the
// problem's type.
func (e *Error) Is(target error) bool {
	if t, ok := target.(*Error); ok {
		return t.Problem.Slug() == e.Problem.Slug()
	}
	switch e.Outcome() {
	case fencing.Failed:
		return target == fencing.ErrFailed
	case fencing.Unknown:
		return target == fencing.ErrUnknown
	}
	return false
}
