package client

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/gateway/wire"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/storage"
)

// LockOptions tunes [Store.CommitLocked]. The zero value is the default.
type LockOptions struct {
	// Wait is how long to wait for locks that others hold, 0 or more. Default: not at all.
	Wait time.Duration
	// Label tells people who holds the locks meanwhile: at most 200 characters of printable ASCII.
	// Commits that share a grant have the label of one of them. Default: none.
	Label string
}

// CommitLocked is a commit without tokens: the gateway takes the locks of its resources, waits for
// those that others hold, commits, and frees them, all in one call; l may be nil. Those of one
// resource that come together share a grant; one of several resources has grants of its own. It is
// for changes that need no reading first, or whose reading is in them: an Add with its minimum, a
// Require of a version.
//
// With a key it is sent until it is answered, or has been sent Options.Retries times more after
// attempts that went wrong. Without one it is carried out at most once: after an unknown outcome,
// whoever knows what the commit means must look before it is sent again. Errors: those of
// [storage.Store.Commit] but for a stale token, which is the gateway's to deal with; a
// [*locking.HeldError] when the wait is over, and nothing was written.
func (s *Store) CommitLocked(ctx context.Context, c storage.Commit, l *LockOptions) (storage.Result, error) {
	if l == nil {
		l = &LockOptions{}
	}
	if len(c.Tokens) > 0 {
		return storage.Result{}, &fencing.InvalidError{What: "commit", Allowed: "no tokens: the gateway takes the locks"}
	}
	if l.Wait < 0 {
		return storage.Result{}, &fencing.InvalidError{What: "wait", Got: l.Wait.String(), Allowed: "0s or more"}
	}
	body, err := commitBody(c)
	if err != nil {
		return storage.Result{}, err
	}
	o := onecall{c: s.c, key: c.Key, body: body, end: time.Now().Add(l.Wait), pause: firstPause, tries: s.c.o.Retries}
	for {
		var m wire.CommitReply
		left := min(s.c.o.MaxWait, max(0, time.Until(o.end)))
		o.body.Lock = &wire.CommitLock{Wait: wire.Span(left), Label: l.Label}
		sent := time.Now()
		a, err := s.c.attempt(ctx, call{
			method: http.MethodPost, path: "/v1/commits", body: o.body, idempotency: c.Key, wait: left, want: http.StatusOK, into: &m,
		})
		if err == nil {
			return commitResult(c, a, m)
		}
		if again, err := o.after(ctx, a, err, left-time.Since(sent)); !again {
			return storage.Result{}, err
		}
	}
}

// onecall is one CommitLocked under way.
type onecall struct {
	c       *Client
	key     string
	body    wire.Commit
	end     time.Time // of the wait
	pause   time.Duration
	tries   int   // how many more attempts may go wrong
	unknown error // an attempt whose outcome is not known; nothing but the key's answer resolves it
}

// after decides what follows an attempt that was not applied; early is by how much it was answered
// before its wait was over.
func (o *onecall) after(ctx context.Context, a answer, err error, early time.Duration) (again bool, _ error) {
	switch outcome := fencing.OutcomeOf(err); {
	case errors.Is(err, locking.ErrHeld) && outcome == fencing.Refused:
		if time.Until(o.end) > 0 && (early <= firstPause || sleep(ctx, firstPause)) && ctx.Err() == nil {
			return true, nil // a longer wait is made of several
		}
	case outcome == fencing.Failed, outcome == fencing.Unknown && o.key != "":
		if outcome == fencing.Unknown {
			o.unknown = err
		}
		if o.tries > 0 && o.c.rest(ctx, a, &o.pause) {
			o.tries--
			return true, nil
		}
	}
	if o.unknown != nil && !judged(err) {
		err = o.unknown
	}
	return false, err
}
