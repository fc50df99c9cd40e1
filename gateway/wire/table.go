package wire

import (
	"errors"
	"net/http"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/storage"
)

// The slugs of the problem types. A slug is never renamed and never used for anything
// else; new ones are added at the end.
const (
	SlugStaleToken       = "stale-token"
	SlugTokenRequired    = "token-required"
	SlugInvalid          = "invalid"
	SlugTooLarge         = "too-large"
	SlugVersionMismatch  = "version-mismatch"
	SlugBelowMinimum     = "below-minimum"
	SlugNotACounter      = "not-a-counter"
	SlugCounterRange     = "counter-range"
	SlugRecordNotFound   = "record-not-found"
	SlugHeld             = "held"
	SlugLeaseLost        = "lease-lost"
	SlugNumbersExhausted = "numbers-exhausted"
	SlugUnsettled        = "unsettled"
	SlugFailed           = "failed"
	SlugUnknown          = "unknown"
	SlugRefused          = "refused"
	SlugMalformed        = "malformed"
	SlugNotFound         = "not-found"
	SlugMethodNotAllowed = "method-not-allowed"
	SlugUnsupportedMedia = "unsupported-media-type"
	SlugRaiseForbidden   = "raise-forbidden"
	SlugInternal         = "internal"
	SlugTooManyWaiters   = "too-many-waiters"
	SlugKeyReused        = "idempotency-key-reused"
	SlugUnauthorized     = "unauthorized"
	SlugForbidden        = "forbidden"
	SlugRateLimited      = "rate-limited"
	SlugOverloaded       = "overloaded"
	SlugDraining         = "draining"
	SlugURITooLong       = "uri-too-long"
)

// kind is a row of the table: a problem type and the error it stands for.
type kind struct {
	slug    string
	status  int
	outcome fencing.Outcome
	title   string
	text    string // for /problems/{slug}: what it means, whether anything was written, what to do

	from func(error, *Problem) bool // whether the error is of this kind; fills the extensions
	to   func(*Problem) error       // nil where the members do not fit
}

func (k *kind) problem() Problem {
	return Problem{Type: Base + k.slug, Title: k.title, Status: k.status, Outcome: k.outcome.String()}
}

func kindOf(slug string) *kind {
	for i := range table {
		if table[i].slug == slug {
			return &table[i]
		}
	}
	return nil
}

// table is append-only. FromError takes the first row that fits.
var table = [...]kind{
	{
		slug: SlugStaleToken, status: http.StatusPreconditionFailed, outcome: fencing.Refused,
		title: "The token is not current",
		text: "The store refused the token; reason says why: superseded (a newer token was granted), retired (it was released or evicted, or the store was restarted), " +
			"duplicate (another grant has the same number), ungranted (the number was never granted here).\n\n" +
			"Nothing was written, and nothing with this token ever will be.\n\nTake the lock again, read the data again, and decide again. Sending the same request again is refused again.",
		from: fromStale(false), to: toStale,
	},
	{
		slug: SlugTokenRequired, status: http.StatusPreconditionRequired, outcome: fencing.Refused,
		title: "A token is required",
		text: "The operation needs a fencing token: the header Fencing-Token, or an entry in tokens for every resource that a commit touches. With the reason grant-required, a plain number was sent " +
			"where the full token (number, dot, grant id) is needed.\n\nNothing was written.\n\nTake the lock on the resource and send the token that it returned.",
		from: fromStale(true), to: toTokenRequired,
	},
	{
		slug: SlugInvalid, status: http.StatusUnprocessableEntity, outcome: fencing.Refused,
		title: "A value is outside its grammar or range",
		text:  "The request was readable, but a name, number, duration or value is outside what is allowed; what, got and allowed say which and what is.\n\nNothing was written.\n\nCorrect the value.",
		from:  fromInvalid, to: toInvalid,
	},
	{
		slug: SlugTooLarge, status: http.StatusRequestEntityTooLarge, outcome: fencing.Refused,
		title: "The body is too large",
		text:  "The body is larger than this gateway takes; allowed says how much.\n\nNothing was written.\n\nSend less: a smaller value, or several commits.",
		to:    toInvalid,
	},
	{
		slug: SlugVersionMismatch, status: http.StatusPreconditionFailed, outcome: fencing.Refused,
		title: "The record has another version",
		text:  "A required version (If-Match, If-None-Match, or an operation require) is not the record's; have is the record's version, want the required one, 0 stands for no record.\n\nNothing was written, not even the other operations of the commit.\n\nRead the record again and decide again.",
		from:  fromRefused(storage.ErrVersionMismatch), to: toRefused(storage.ErrVersionMismatch),
	},
	{
		slug: SlugBelowMinimum, status: http.StatusConflict, outcome: fencing.Refused,
		title: "The counter would fall below its minimum",
		text:  "An add would have brought the counter below min; have is the counter, want the minimum. For a stock this means: sold out.\n\nNothing was written, not even the other operations of the commit.\n\nTake less, or stop.",
		from:  fromRefused(storage.ErrBelowMinimum), to: toRefused(storage.ErrBelowMinimum),
	},
	{
		slug: SlugNotACounter, status: http.StatusConflict, outcome: fencing.Refused,
		title: "The record is not a counter",
		text:  "An add found a value that is not an integer in decimal text.\n\nNothing was written, not even the other operations of the commit.\n\nUse another key, or put a number there first.",
		from:  fromRefused(storage.ErrNotCounter), to: toRefused(storage.ErrNotCounter),
	},
	{
		slug: SlugCounterRange, status: http.StatusConflict, outcome: fencing.Refused,
		title: "The counter would leave its range",
		text:  "The sum would be outside -9007199254740991 to 9007199254740991.\n\nNothing was written, not even the other operations of the commit.\n\nAdd less.",
		from:  fromRefused(storage.ErrCounterRange), to: toRefused(storage.ErrCounterRange),
	},
	{
		slug: SlugRecordNotFound, status: http.StatusNotFound, outcome: fencing.Refused,
		title: "There is no such record",
		text:  "The resource has no record of this key. After a fenced read this is a fact under your token; after a plain one it may be old.\n\nNothing was written; but over a classic store a fenced read has raised its token.\n\nPut the record first.",
		from: func(err error, p *Problem) bool {
			p.Detail = storage.ErrNotFound.Error()
			return errors.Is(err, storage.ErrNotFound)
		},
		to: func(*Problem) error { return storage.ErrNotFound },
	},
	{
		slug: SlugHeld, status: http.StatusLocked, outcome: fencing.Refused,
		title: "Somebody else holds the lock",
		text:  "The lock was held for as long as the request was willing to wait. label is what the holder calls itself, remaining when its hold ends unless it is renewed.\n\nNothing was written, nothing is held for you.\n\nTry again after Retry-After, or ask with a longer wait.",
		from:  fromHeld, to: toHeld,
	},
	{
		slug: SlugLeaseLost, status: http.StatusPreconditionFailed, outcome: fencing.Refused,
		title: "The lease is lost",
		text:  "The hold of this token has ended: it expired, was released, or was evicted.\n\nNothing was changed.\n\nStop the work that relied on it, take the lock again with a new grant, and read the data again.",
		from:  is(locking.ErrLost), to: as(locking.ErrLost),
	},
	{
		slug: SlugNumbersExhausted, status: http.StatusConflict, outcome: fencing.Refused,
		title: "The resource has no numbers left",
		text:  "The resource has used up its numbers, 2^53-1 of them; in practice somebody raised the counter.\n\nNothing was written, nothing is held for you.\n\nUse another resource name.",
		from:  is(locking.ErrExhausted), to: as(locking.ErrExhausted),
	},
	{
		slug: SlugUnsettled, status: http.StatusConflict, outcome: fencing.Refused,
		title: "The stores refused every number that was granted",
		text:  "A grant's number kept being refused by a store, which has seen higher ones: another lock service grants numbers for the same resource.\n\nNothing was written, nothing is held for you.\n\nTry again; if it stays, make sure that one lock service alone serves this resource.",
		from:  is(locking.ErrUnsettled), to: as(locking.ErrUnsettled),
	},
	{
		slug: SlugFailed, status: http.StatusServiceUnavailable, outcome: fencing.Failed,
		title: "The attempt failed",
		text:  "The gateway could not do it now: a backend was not reachable, too busy, or stopped the attempt.\n\nSurely nothing was written by this attempt.\n\nTry again after Retry-After.",
	},
	{
		slug: SlugUnknown, status: http.StatusGatewayTimeout, outcome: fencing.Unknown,
		title: "The outcome is unknown",
		text:  "The gateway sent the operation to a backend and did not learn what became of it.\n\nIt may have been written, or may yet be.\n\nSending a lock, renew or release request again is safe, and so is a commit with an Idempotency-Key: it is answered as it was, and applied once. Without a key, read under your token what is there before you decide again.",
	},
	{
		slug: SlugRefused, status: http.StatusConflict, outcome: fencing.Refused,
		title: "The request was refused",
		text:  "The issuer or the store refused the request for a reason that has no type of its own.\n\nNothing was written.\n\nThe same request will be refused again.",
	},
	{
		slug: SlugMalformed, status: http.StatusBadRequest, outcome: fencing.Refused,
		title: "The request is not readable",
		text: "The body is not one JSON object of the documented members (unknown members, members that come twice and null are refused), a member has the wrong type (numbers are strings here), or a header or query parameter comes twice or is unknown.\n\n" +
			"Nothing was written.\n\nCorrect the request.",
	},
	{
		slug: SlugNotFound, status: http.StatusNotFound, outcome: fencing.Refused,
		title: "There is nothing at this address",
		text:  "No route has this path.\n\nNothing was written.\n\nCheck the address. A resource or key in a path is escaped once.",
	},
	{
		slug: SlugMethodNotAllowed, status: http.StatusMethodNotAllowed, outcome: fencing.Refused,
		title: "The method is not allowed here",
		text:  "The path exists, but not with this method; Allow lists those it has.\n\nNothing was written.\n\nUse one of them.",
	},
	{
		slug: SlugUnsupportedMedia, status: http.StatusUnsupportedMediaType, outcome: fencing.Refused,
		title: "The body's type is not supported",
		text:  "The route takes application/json, in UTF-8, or, for a record, any bytes; neither takes a Content-Encoding.\n\nNothing was written.\n\nSend the body as it is, with its Content-Type.",
	},
	{
		slug: SlugRaiseForbidden, status: http.StatusForbidden, outcome: fencing.Refused,
		title: "This gateway's store is strict",
		text:  "A strict store's mark is raised by granting a lock and in no other way, so that nobody can brick a resource with a huge number.\n\nNothing was written.\n\nTake the lock through this gateway. Numbers of outside lock services need a classic store.",
	},
	{
		slug: SlugInternal, status: http.StatusInternalServerError, outcome: fencing.Unknown,
		title: "The gateway has a fault",
		text:  "A program error; instance names it in the gateway's log.\n\nWhat the request asked for may have been written.\n\nTell whoever runs the gateway. Read under your token what is there before you decide again.",
	},
	{
		slug: SlugTooManyWaiters, status: http.StatusServiceUnavailable, outcome: fencing.Failed,
		title: "Too many wait for this lock",
		text:  "As many requests wait for this resource's lock at this gateway as may.\n\nNothing was written, nothing is held for you.\n\nTry again after Retry-After, or spread the load: over buckets of the stock, over gateways.",
		from: func(err error, p *Problem) bool {
			p.Detail = locking.ErrTooManyWaiters.Error()
			return errors.Is(err, locking.ErrTooManyWaiters) && fencing.OutcomeOf(err) == fencing.Failed
		},
		to: as(locking.ErrTooManyWaiters),
	},
	{
		slug: SlugKeyReused, status: http.StatusUnprocessableEntity, outcome: fencing.Refused,
		title: "The idempotency key was used for another commit",
		text: "A commit of other resources or operations was answered under this key and resource before; key and resource say which. Tokens are no part of what is compared, the order of the operations is.\n\n" +
			"Nothing was written.\n\nMake a new key for every new commit, and send a commit again exactly as it was.",
		from: fromRefused(storage.ErrKeyReused), to: toRefused(storage.ErrKeyReused),
	},
	{
		slug: SlugUnauthorized, status: http.StatusUnauthorized, outcome: fencing.Refused,
		title: "An API key is required",
		text:  "The request has no key, or one that this gateway does not know or that has expired.\n\nNothing was written.\n\nSend Authorization: Bearer and the key. Whoever runs the gateway makes one.",
	},
	{
		slug: SlugForbidden, status: http.StatusForbidden, outcome: fencing.Refused,
		title: "The key does not cover this",
		text:  "The key is good, but lacks the scope or does not cover the resource; what and allowed say which.\n\nNothing was written.\n\nUse another key.",
	},
	{
		slug: SlugRateLimited, status: http.StatusTooManyRequests, outcome: fencing.Failed,
		title: "Too many requests",
		text:  "The key, or the client's address, made more requests than it may; the RateLimit headers tell how many it has left.\n\nNothing was written.\n\nTry again after Retry-After, and send fewer: one commit for several operations, one request to renew many leases.",
	},
	{
		slug: SlugOverloaded, status: http.StatusServiceUnavailable, outcome: fencing.Failed,
		title: "The gateway has too much to do",
		text:  "As many requests are in work, or wait for locks, at this gateway as may.\n\nNothing was written, nothing is held for you.\n\nTry again after Retry-After.",
	},
	{
		slug: SlugDraining, status: http.StatusServiceUnavailable, outcome: fencing.Failed,
		title: "The gateway is about to stop",
		text:  "The gateway takes no new waiters and sends away those that it has.\n\nNothing was written, nothing is held for you.\n\nSend the request again; it will reach another gateway, or this one after its restart.",
	},
	{
		slug: SlugURITooLong, status: http.StatusRequestURITooLong, outcome: fencing.Refused,
		title: "The address is too long",
		text:  "Path and query together are longer than 4,096 bytes.\n\nNothing was written.\n\nNo address of this API needs so many.",
	},
}

func fromStale(grantRequired bool) func(error, *Problem) bool {
	return func(err error, p *Problem) bool {
		e, ok := errors.AsType[*fencing.StaleError](err)
		if !ok || (e.Reason == fencing.GrantRequired) != grantRequired || fencing.OutcomeOf(err) != fencing.Refused {
			return false
		}
		p.Detail, p.Resource, p.Reason = e.Error(), e.Token.Resource, string(e.Reason)
		p.Number, p.Highest = Ptr(e.Token.Number), Ptr(e.Highest)
		return true
	}
}

func toStale(p *Problem) error {
	if p.Number == nil || p.Highest == nil || p.Reason == "" {
		return nil
	}
	return &fencing.StaleError{
		Token:   fencing.Token{Resource: p.Resource, Number: int64(*p.Number)},
		Highest: int64(*p.Highest), Reason: fencing.Reason(p.Reason),
	}
}

// toTokenRequired: a store without a gateway calls a commit that lacks a token invalid.
func toTokenRequired(p *Problem) error {
	if p.Reason != "" {
		return toStale(p)
	}
	return &fencing.InvalidError{What: "token", Allowed: p.Allowed}
}

// TokenRequired is the error of an operation on resource that came without a token. op is
// the operation's index, below 0 where there is none.
func TokenRequired(resource string, op int) *Error {
	e := NewError(SlugTokenRequired, "")
	e.Problem.Resource, e.Problem.Allowed = resource, "a fencing token for "+resource
	e.Problem.Detail = "want " + e.Problem.Allowed
	if op >= 0 {
		e.Problem.Op = &op
	}
	return e
}

// TooLarge is the error of a body above its limit.
func TooLarge(allowed string) *Error {
	e := NewError(SlugTooLarge, "want "+allowed)
	e.Problem.What, e.Problem.Allowed = "body", allowed
	return e
}

func fromInvalid(err error, p *Problem) bool {
	e, ok := errors.AsType[*fencing.InvalidError](err)
	if !ok || fencing.OutcomeOf(err) != fencing.Refused {
		return false
	}
	p.What, p.Got, p.Allowed = e.What, Redact(e.Got), Redact(e.Allowed)
	p.Detail = (&fencing.InvalidError{What: p.What, Got: p.Got, Allowed: p.Allowed}).Error()
	return true
}

func toInvalid(p *Problem) error {
	return &fencing.InvalidError{What: p.What, Got: p.Got, Allowed: p.Allowed}
}

func fromRefused(reason error) func(error, *Problem) bool {
	return func(err error, p *Problem) bool {
		e, ok := errors.AsType[*storage.RefusedError](err)
		if !ok || !errors.Is(e.Reason, reason) || fencing.OutcomeOf(err) != fencing.Refused {
			return false
		}
		op := e.Op
		p.Detail, p.Resource, p.Key, p.Op = e.Error(), e.Resource, e.Key, &op
		p.Have, p.Want = Ptr(e.Have), Ptr(e.Want)
		return true
	}
}

func toRefused(reason error) func(*Problem) error {
	return func(p *Problem) error {
		if p.Op == nil || p.Have == nil || p.Want == nil {
			return nil
		}
		return &storage.RefusedError{
			Op: *p.Op, Resource: p.Resource, Key: p.Key, Reason: reason,
			Have: int64(*p.Have), Want: int64(*p.Want),
		}
	}
}

func fromHeld(err error, p *Problem) bool {
	e, ok := errors.AsType[*locking.HeldError](err)
	if !ok || fencing.OutcomeOf(err) != fencing.Refused {
		return false
	}
	shown := *e
	shown.Label = Redact(e.Label)
	p.Detail, p.Resource, p.Label = shown.Error(), e.Resource, shown.Label
	if e.Number > 0 {
		p.Number = Ptr(e.Number)
	}
	if e.Remaining > 0 {
		p.Remaining = Span(e.Remaining)
	}
	return true
}

func toHeld(p *Problem) error {
	e := &locking.HeldError{Resource: p.Resource, Label: p.Label}
	if p.Number != nil {
		e.Number = int64(*p.Number)
	}
	if p.Remaining != nil {
		e.Remaining = time.Duration(*p.Remaining)
	}
	return e
}

func is(target error) func(error, *Problem) bool {
	return func(err error, p *Problem) bool {
		p.Detail = target.Error()
		return errors.Is(err, target) && fencing.OutcomeOf(err) == fencing.Refused
	}
}

func as(err error) func(*Problem) error {
	return func(*Problem) error { return err }
}

// Page is the text behind a problem's type.
type Page struct {
	Slug   string
	Status int
	Title  string
	Text   string
}

// Pages returns the pages of all problem types, in the table's order.
func Pages() []Page {
	out := make([]Page, len(table))
	for i, k := range table {
		out[i] = Page{k.slug, k.status, k.title, k.text}
	}
	return out
}
