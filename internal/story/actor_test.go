package story_test

import (
	"context"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/gateway"
	"github.com/fencegate/fencegate/internal/story"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/locking/memlock"
	"github.com/fencegate/fencegate/storage"
	"github.com/fencegate/fencegate/storage/memstore"
)

// tooLate is an issuer whose first grant comes too late to be trusted.
type tooLate struct {
	locking.Issuer
	asked *int
}

func (l tooLate) Grant(ctx context.Context, r locking.Request) (locking.Granted, error) {
	if *l.asked++; *l.asked == 1 {
		return locking.Granted{}, locking.ErrLost
	}
	return l.Issuer.Grant(ctx, r)
}

// TestGrantedTooLate: an actor whose lease was over before it had it asks again, and one without a
// lease says so.
func TestGrantedTooLate(t *testing.T) {
	t.Parallel()
	store, err := storage.New(memstore.New(nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	issuer, err := locking.NewIssuer(memlock.New(), []fencing.Fence{store}, nil)
	if err != nil {
		t.Fatal(err)
	}
	handler, err := gateway.New(gateway.Options{Issuer: issuer, Store: store})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	asked := 0
	role := story.Role{Name: "A", URL: server.URL, Resource: "coupon:42", TTL: time.Minute, Locked: true, Fenced: true}
	a, err := story.NewActor(role, func(i locking.Issuer) locking.Issuer { return tooLate{i, &asked} })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(context.Background()) })
	for _, action := range []story.Action{story.Read, story.Check, story.Write, story.Release} {
		if got := a.Do(t.Context(), action); got.Outcome != story.Failed || got.Detail == "" {
			t.Errorf("%s without a lease: got %+v", action, got)
		}
	}
	if got := a.Do(t.Context(), story.Acquire); got.Outcome != story.Granted || asked != 2 {
		t.Errorf("got %+v after %d requests, want a grant by the second", got, asked)
	}
}
