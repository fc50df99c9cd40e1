package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/storage"
)

// maxWait is how long a request of the shop waits for a lock.
const maxWait = 5 * time.Second

// stock is the record of a coupon that says how many are left.
const stock = "left"

// soldOut is a refusal by the data, as the store's own are.
type soldOut struct{}

func (soldOut) Error() string            { return "no coupon is left" }
func (soldOut) Outcome() fencing.Outcome { return fencing.Refused }

// shop has the routes that were there before the gateway was.
type shop struct {
	locker *locking.Locker
	store  *storage.Store
}

func (s *shop) routes(mux *http.ServeMux) {
	mux.HandleFunc("GET /coupons/{id}", s.show)
	mux.HandleFunc("PUT /coupons/{id}", s.fill)
	mux.HandleFunc("POST /coupons/{id}/claim", s.claim)
}

// show tells how many are left. It is a plain read, for looking at: no decision hangs on it.
func (s *shop) show(w http.ResponseWriter, r *http.Request) {
	n, err := number(s.store.Get(r.Context(), resource(r), stock))
	answer(w, n, err)
}

// fill says how many there are: PUT /coupons/42?left=10.
func (s *shop) fill(w http.ResponseWriter, r *http.Request) {
	n, err := strconv.ParseInt(r.URL.Query().Get("left"), 10, 64)
	if err != nil || n < 0 || n > storage.MaxCounter {
		answer(w, 0, &fencing.InvalidError{What: "left", Allowed: fmt.Sprintf("a number, 0 to %d", int64(storage.MaxCounter))})
		return
	}
	err = s.locker.Do(r.Context(), resource(r), func(ctx context.Context, t fencing.Token) error {
		_, err := s.store.Put(ctx, t, stock, storage.Counter(n))
		return err
	})
	answer(w, n, err)
}

// claim hands one out: lock, read, write, release. Whoever else holds the coupon's lock, here or
// over HTTP, is waited for; whoever believes so only is refused by the store.
func (s *shop) claim(w http.ResponseWriter, r *http.Request) {
	var left int64
	err := s.locker.Do(r.Context(), resource(r), func(ctx context.Context, t fencing.Token) error {
		n, err := number(s.store.GetFenced(ctx, t, stock))
		if err != nil {
			return err
		}
		if n <= 0 {
			return soldOut{}
		}
		left = n - 1
		_, err = s.store.Put(ctx, t, stock, storage.Counter(left))
		return err
	})
	answer(w, left, err)
}

// number reads a record that is to be one: whoever has the gateway's key may have put anything there.
func number(rec storage.Record, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	n, ok := storage.ParseCounter(rec.Value)
	if !ok {
		return 0, notANumber{}
	}
	return n, nil
}

// notANumber is a refusal by the data.
type notANumber struct{}

func (notANumber) Error() string            { return "the record " + stock + " is not a number" }
func (notANumber) Outcome() fencing.Outcome { return fencing.Refused }

func resource(r *http.Request) string { return "coupon:" + r.PathValue("id") }

// reply is what all routes answer.
type reply struct {
	Left    *int64 `json:"left,omitempty"`
	Outcome string `json:"outcome,omitempty"` // of an error: refused, failed or unknown
	Error   string `json:"error,omitempty"`
}

// answer keeps the four outcomes apart: applied, refused, failed and unknown.
func answer(w http.ResponseWriter, left int64, err error) {
	r, code := reply{Left: &left}, http.StatusOK
	if err != nil {
		r, code = reply{Outcome: fencing.OutcomeOf(err).String(), Error: err.Error()}, status(err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	if err := json.NewEncoder(w).Encode(r); err != nil {
		return // the client has gone
	}
}

func status(err error) int {
	_, invalid := errors.AsType[*fencing.InvalidError](err)
	switch outcome := fencing.OutcomeOf(err); {
	case outcome == fencing.Unknown:
		return http.StatusGatewayTimeout // it may have been applied, whatever else the error is
	case invalid:
		return http.StatusBadRequest
	case errors.Is(err, storage.ErrNotFound):
		return http.StatusNotFound
	case errors.Is(err, locking.ErrHeld):
		return http.StatusLocked
	case outcome == fencing.Failed:
		return http.StatusServiceUnavailable // surely nothing happened: again
	}
	return http.StatusConflict // refused, by the fence or by the data
}
