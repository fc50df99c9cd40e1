package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// standIn is the client of a lock service that is as small as it can be:
//
//	POST   /locks/{name}?ttl=1s     200 {"revision":"7"}, or 423: somebody holds it
//	DELETE /locks/{name}/{revision} 200 {}
type standIn struct{ url string }

func (s *standIn) String() string {
	return "a stand-in in this process at " + s.url + " (there is no etcd in the path)"
}

// lock asks until it is answered with a revision.
func (s *standIn) lock(ctx context.Context, name string, ttl time.Duration) (grant, error) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		var granted struct {
			Revision int64 `json:"revision,string"`
		}
		err := send(ctx, http.MethodPost, s.url+"/locks/"+name+"?ttl="+ttl.String(), nil, &granted)
		if refused, ok := errors.AsType[*statusError](err); ok && refused.status == http.StatusLocked {
			select {
			case <-tick.C:
				continue
			case <-ctx.Done():
				return grant{}, ctx.Err()
			}
		}
		if err != nil {
			return grant{}, err
		}
		return grant{number: granted.Revision, unlock: func(ctx context.Context) error {
			return send(context.WithoutCancel(ctx), http.MethodDelete, fmt.Sprintf("%s/locks/%s/%d", s.url, name, granted.Revision), nil, nil)
		}}, nil
	}
}

// lockServer is the service. It keeps its revision in memory, which is where it differs most from
// etcd: begun anew, it would give out numbers that the store refuses as old.
type lockServer struct {
	mu       sync.Mutex // guards the rest
	revision int64      // of the whole service, as in etcd
	held     map[string]hold
}

type hold struct {
	revision int64
	until    time.Time
}

func startStandIn(ctx context.Context) (*standIn, func(), error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	s := &lockServer{held: map[string]hold{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /locks/{name}", s.take)
	mux.HandleFunc("DELETE /locks/{name}/{revision}", s.free)
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = srv.Serve(l) }()
	return &standIn{url: "http://" + l.Addr().String()}, func() { _ = srv.Close() }, nil
}

func (s *lockServer) take(w http.ResponseWriter, r *http.Request) {
	ttl, err := time.ParseDuration(r.URL.Query().Get("ttl"))
	if err != nil || ttl <= 0 {
		http.Error(w, "ttl: a duration above 0", http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	name, now := r.PathValue("name"), time.Now()
	if h, ok := s.held[name]; ok && now.Before(h.until) {
		http.Error(w, "somebody holds it", http.StatusLocked)
		return
	}
	s.revision++
	s.held[name] = hold{s.revision, now.Add(ttl)}
	fmt.Fprintf(w, "{\"revision\":\"%d\"}\n", s.revision)
}

func (s *lockServer) free(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := r.PathValue("name")
	if strconv.FormatInt(s.held[name].revision, 10) == r.PathValue("revision") { // never the next holder's
		delete(s.held, name)
	}
	_, _ = w.Write([]byte("{}"))
}
