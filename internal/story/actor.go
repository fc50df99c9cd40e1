package story

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/gateway/client"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/storage"
)

// key is the record that counts the coupons.
const key = "left"

// Role tells an actor who it is and where the gateway is.
type Role struct {
	Name     string        `json:"name"`
	URL      string        `json:"url"`
	Resource string        `json:"resource"`
	TTL      time.Duration `json:"ttl"`
	Locked   bool          `json:"locked"` // else it has never heard of tokens
	Fenced   bool          `json:"fenced"` // it sends its token with reads too
}

// Reply is what came of an actor's action.
type Reply struct {
	Outcome string `json:"outcome"`
	Number  int64  `json:"number,omitempty"`
	Value   int64  `json:"value,omitempty"`   // what was read or written
	Highest int64  `json:"highest,omitempty"` // of a refusal: the store's number
	Detail  string `json:"detail,omitempty"`
}

// Actor is one client of the gateway. Its methods must not be called concurrently.
type Actor struct {
	role   Role
	client *client.Client
	locker *locking.Locker
	lease  *locking.Lease
	read   int64
}

// NewActor returns an actor; wrap, if not nil, stands between it and the gateway's locks.
func NewActor(r Role, wrap func(locking.Issuer) locking.Issuer) (*Actor, error) {
	c, err := client.New(r.URL, nil)
	if err != nil {
		return nil, err
	}
	var issuer locking.Issuer = c.Issuer()
	if wrap != nil {
		issuer = wrap(issuer)
	}
	l, err := locking.New(issuer, &locking.Options{TTL: r.TTL, Label: "client-" + r.Name})
	if err != nil {
		return nil, err
	}
	return &Actor{role: r, client: c, locker: l}, nil
}

// Close gives up what the actor still holds.
func (a *Actor) Close(ctx context.Context) {
	if a.lease != nil {
		_ = a.lease.Release(ctx) // a lost one is what the story is about
	}
	a.client.Close()
}

// Do carries out one action. What goes wrong is part of the story and in the reply.
func (a *Actor) Do(ctx context.Context, action Action) Reply {
	var r Reply
	var err error
	switch action {
	case Acquire:
		r, err = a.acquire(ctx)
	case Read, Check, Write, Release:
		r, err = a.hold(ctx, action)
	default:
		err = fmt.Errorf("an actor cannot %q", action)
	}
	return explain(r, err)
}

// hold carries out what needs the lease, where there are locks.
func (a *Actor) hold(ctx context.Context, action Action) (r Reply, err error) {
	if a.lease == nil && (a.role.Locked || action == Check || action == Release) {
		return r, fmt.Errorf("without a lease an actor cannot %q", action)
	}
	switch action {
	case Read:
		r, err = a.readLeft(ctx)
	case Check:
		r = a.check()
	case Write:
		r, err = a.write(ctx)
	default:
		r = Reply{Outcome: OK, Number: a.number()}
		err = a.lease.Release(ctx)
		a.lease = nil
	}
	return r, err
}

func explain(r Reply, err error) Reply {
	if err == nil {
		return r
	}
	r.Outcome, r.Detail = Failed, err.Error()
	if fencing.OutcomeOf(err) == fencing.Refused {
		r.Outcome = Refused
	}
	if errors.Is(err, locking.ErrLost) {
		r.Outcome = Lost
	}
	if stale, ok := errors.AsType[*fencing.StaleError](err); ok {
		r.Highest = stale.Highest
	}
	return r
}

func (a *Actor) number() int64 {
	if a.lease == nil {
		return 0
	}
	return a.lease.Token().Number
}

func (a *Actor) acquire(ctx context.Context) (Reply, error) {
	if a.lease != nil { // the lost one, after a refusal: its end has been seen
		_ = a.lease.Release(ctx)
	}
	lease, err := a.locker.Acquire(ctx, a.role.Resource)
	for errors.Is(err, locking.ErrLost) && ctx.Err() == nil { // granted too late to be trusted, by a busy machine
		lease, err = a.locker.Acquire(ctx, a.role.Resource)
	}
	if err != nil {
		a.lease = nil
		return Reply{}, err
	}
	a.lease = lease
	return Reply{Outcome: Granted, Number: a.number()}, nil
}

func (a *Actor) readLeft(ctx context.Context) (Reply, error) {
	r := Reply{Outcome: OK, Number: a.number()}
	var rec storage.Record
	var err error
	if a.role.Fenced {
		rec, err = a.client.Store().GetFenced(ctx, a.lease.Token(), key)
	} else {
		rec, err = a.client.Store().Get(ctx, a.role.Resource, key)
	}
	if err != nil {
		return r, err
	}
	n, ok := storage.ParseCounter(rec.Value)
	if !ok {
		return r, fmt.Errorf("the record %s/%s is no counter", a.role.Resource, key)
	}
	a.read, r.Value = n, n
	return r, nil
}

func (a *Actor) check() Reply {
	if a.lease.Context().Err() != nil || !a.lease.Deadline().After(time.Now()) {
		return Reply{Outcome: Lost, Number: a.number()}
	}
	return Reply{Outcome: OK, Number: a.number()}
}

// write hands out one coupon by what was read. It does not look at the lease: that was
// done before, and whatever time passes in between is the story.
func (a *Actor) write(ctx context.Context) (Reply, error) {
	r := Reply{Outcome: Accepted, Number: a.number(), Value: a.read - 1}
	if a.role.Locked {
		_, err := a.client.Store().Put(ctx, a.lease.Token(), key, storage.Counter(r.Value))
		return r, err
	}
	return r, a.plainPut(ctx, r.Value)
}

// plainPut writes without any token, as a client does that has never heard of fencing.
func (a *Actor) plainPut(ctx context.Context, value int64) error {
	url := a.role.URL + "/v1/resources/" + a.role.Resource + "/records/" + key
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, url, strings.NewReader(strconv.FormatInt(value, 10)))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/octet-stream")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode/100 != 2 {
		body, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
		return fmt.Errorf("PUT %s: %s: %s", url, resp.Status, body)
	}
	return nil
}

// Serve runs an actor that gets its role and then its actions as JSON lines from in, and
// answers each of them on out: the other end of a process that can be stopped.
func Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	lines, replies := json.NewDecoder(in), json.NewEncoder(out)
	var role Role
	if err := lines.Decode(&role); err != nil {
		return fmt.Errorf("reading the role: %w", err)
	}
	actor, err := NewActor(role, nil)
	if err != nil {
		return err
	}
	defer actor.Close(ctx)
	if err := replies.Encode(Reply{Outcome: OK}); err != nil {
		return err
	}
	for {
		var action Action
		if err := lines.Decode(&action); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("reading an action: %w", err)
		}
		if err := replies.Encode(actor.Do(ctx, action)); err != nil {
			return err
		}
	}
}
