package main

import (
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// declinedAmount is the price, in cents, that the stub always declines.
const declinedAmount = 13

// paymentStub is a payment service for trying things out: slow, unreliable if that is wanted, and
// idempotent by key, as real ones are. It keeps its payments in memory.
//
//	POST   /payments        Idempotency-Key: K  {coupon, amount}   200 {key, coupon, amount, state}
//	DELETE /payments/K                                             200 {…, "state": "void"}
//	GET    /payments?coupon=42&after=K                             200 [{…}], up to 1,000, by key
//
// A key that was voided is never captured later, not even if the void came first.
type paymentStub struct {
	delay time.Duration // before an answer
	fail  float64       // the share of calls without an answer: half of them did nothing, half did all
	// booked, if not nil, is called with each new captured payment, before it is answered.
	booked func(key string)

	mu       sync.Mutex // guards payments, and nothing slow
	payments map[string]payment
}

// handler returns the service.
func (s *paymentStub) handler() http.Handler {
	s.payments = map[string]payment{}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /payments", s.capture)
	mux.HandleFunc("DELETE /payments/{key}", s.void)
	mux.HandleFunc("GET /payments", s.list)
	return mux
}

func (s *paymentStub) capture(w http.ResponseWriter, r *http.Request) {
	var p payment
	key := r.Header.Get("Idempotency-Key")
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<12)).Decode(&p); err != nil || key == "" || p.Amount < 1 {
		http.Error(w, "want an Idempotency-Key and {coupon, amount}", http.StatusBadRequest)
		return
	}
	s.answer(w, func() (payment, bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if was, ok := s.payments[key]; ok {
			return was, false
		}
		p.Key, p.State = key, paymentCaptured
		if p.Amount == declinedAmount {
			p.State = paymentDeclined
		}
		s.payments[key] = p
		return p, p.State == paymentCaptured
	})
}

func (s *paymentStub) void(w http.ResponseWriter, r *http.Request) {
	s.answer(w, func() (payment, bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		p := s.payments[r.PathValue("key")] // a new one, if the capture is still on its way
		if p.State != paymentDeclined {
			p.Key, p.State = r.PathValue("key"), paymentVoid
			s.payments[p.Key] = p
		}
		return p, false
	})
}

// answer does the work, slowly, and answers, mostly.
func (s *paymentStub) answer(w http.ResponseWriter, work func() (p payment, isNew bool)) {
	luck := rand.Float64()
	time.Sleep(s.delay / 2)
	if luck < s.fail/2 {
		http.Error(w, "out of order", http.StatusServiceUnavailable)
		return
	}
	p, isNew := work()
	time.Sleep(s.delay / 2)
	if isNew && s.booked != nil {
		s.booked(p.Key)
	}
	if luck < s.fail {
		panic(http.ErrAbortHandler) // done, and the answer is lost
	}
	reply(w, p)
}

func (s *paymentStub) list(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := []payment{}
	for _, p := range s.payments {
		if p.Coupon == r.FormValue("coupon") && p.Key > r.FormValue("after") {
			list = append(list, p)
		}
	}
	slices.SortFunc(list, func(a, b payment) int { return strings.Compare(a.Key, b.Key) })
	reply(w, list[:min(len(list), 1000)])
}

func reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(encode(v)) // if nobody reads it, nobody is there to be told
}
