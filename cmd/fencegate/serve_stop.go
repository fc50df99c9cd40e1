package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fencegate/fencegate/gateway/wire"
)

// cutOff says that a server ended, when it was told to, before everything was finished.
type cutOff struct{ error }

func (e cutOff) Unwrap() error { return e.error }

// stop ends the server in steps, so that nobody's request is lost:
//
//  1. /readyz says no, those who wait for locks are sent away, every reply closes its connection;
//     everything else is served as before, for --drain-delay. Load balancers notice.
//  2. In the last part of it requests are answered 503 draining, which did surely nothing: clients
//     that know other replicas go there. Else a request could come on a connection that the
//     system has accepted and this process will not.
//  3. Nothing new is accepted. What was begun is finished, for --stop-timeout.
func (s *server) stop(ctx context.Context) error {
	f := s.flags
	s.log.Info("stopping", "drain_delay", f.DrainDelay.String(), "stop_timeout", f.StopTimeout.String())
	s.gateway.Drain()
	if s.lab != nil { // its streams do not end by themselves
		soon, cancel := context.WithTimeout(ctx, closeTimeout)
		if err := s.lab.Close(soon); err != nil {
			s.log.Warn("the lab did not end", "error", err.Error())
		}
		cancel()
	}
	last := min(time.Second, f.DrainDelay/2)
	time.Sleep(f.DrainDelay - last)
	if last > 0 {
		s.farewell.said.Store(true)
		time.Sleep(last)
	}
	ctx, cancel := context.WithTimeout(ctx, f.StopTimeout)
	defer cancel()
	err := s.shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = cutOff{fmt.Errorf("%d requests were not finished within --stop-timeout %v and were cut off", s.underWay.Load(), f.StopTimeout)}
	}
	for _, l := range s.listening {
		err = errors.Join(err, l.http.Close())
	}
	s.log.Info("stopped", "sent_away", s.farewell.count.Load(), "cut_off", err != nil)
	return err
}

// shutdown closes every address at once, and waits for the requests to all of them.
func (s *server) shutdown(ctx context.Context) error {
	errs := make([]error, len(s.listening))
	var all sync.WaitGroup
	for i, l := range s.listening {
		all.Go(func() { errs[i] = l.http.Shutdown(ctx) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// counted counts the requests that are under way, on whatever address.
func (s *server) counted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.underWay.Add(1)
		defer s.underWay.Add(-1)
		next.ServeHTTP(w, r)
	})
}

// farewell stands in front of the gateway and, once said, answers every request that it will not
// be carried out here.
type farewell struct {
	next  http.Handler
	said  atomic.Bool
	count atomic.Int64
}

// ServeHTTP implements http.Handler.
func (f *farewell) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !f.said.Load() || r.URL.Path == "/livez" || r.URL.Path == "/readyz" {
		f.next.ServeHTTP(w, r)
		return
	}
	f.count.Add(1)
	w.Header().Set("Connection", "close")
	refuse(w, wire.NewError(wire.SlugDraining, ""))
}

// refuse answers a request that does not come to the gateway.
func refuse(w http.ResponseWriter, e *wire.Error) {
	p := wire.FromError(e)
	body, err := json.Marshal(p)
	if err != nil {
		panic(err) // the wire types always marshal
	}
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Type", wire.TypeProblem)
	if after := p.RetryAfter(); after > 0 {
		h.Set("Retry-After", strconv.Itoa(after))
	}
	w.WriteHeader(p.Status)
	_, _ = w.Write(body)
}
