package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"golang.org/x/net/netutil"

	"github.com/fencegate/fencegate/gateway/wire"
)

// maxHeader bounds the bytes of a request's line and headers, about.
const maxHeader = 16 << 10

// maxAdmin is how many connections the admin address serves at once.
const maxAdmin = 100

// listener is an address that is served.
type listener struct {
	net.Listener
	http *http.Server
}

func (l *listener) addr() string { return l.Addr().String() }

// public is the listener for everybody.
func (s *server) public() *listener { return s.listening[len(s.listening)-1] }

// listen begins to serve. The channel gets the error of a listener that ended by itself.
func (s *server) listen(ctx context.Context) (<-chan error, error) {
	type address struct {
		flag, addr string
		most       int
		handler    http.Handler
	}
	// The address for everybody comes last: whoever reaches it finds everything in its place.
	s.farewell.next = s.gateway
	handler := s.telemetry.Handler(&s.farewell)
	if s.lab != nil { // in front: its paths hold the ids of sessions, which are not for traces
		handler = mountLab(s.lab, handler)
	}
	addresses := []address{{"--listen", s.flags.Listen, s.flags.MaxConnections, handler}}
	if s.flags.AdminListen != "" {
		addresses = append([]address{{"--admin-listen", s.flags.AdminListen, maxAdmin, s.telemetry.Handler(s.gateway.Admin())}}, addresses...)
	}
	for _, a := range addresses {
		if s.flags.Keys == "" && !s.flags.Insecure {
			a.handler = ownNames(a.handler)
		}
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", a.addr)
		if err != nil {
			for _, open := range s.listening {
				err = errors.Join(err, open.Close())
			}
			return nil, fmt.Errorf("%s: %w", a.flag, err)
		}
		s.listening = append(s.listening, &listener{netutil.LimitListener(l, a.most), s.httpServer(s.counted(a.handler))})
	}
	failed := make(chan error, len(s.listening))
	for _, l := range s.listening {
		go func() {
			if err := s.serve(l); !errors.Is(err, http.ErrServerClosed) {
				failed <- err
			}
		}()
	}
	return failed, nil
}

func (s *server) serve(l *listener) error {
	if s.cert == nil {
		return l.http.Serve(l)
	}
	l.http.TLSConfig = s.cert.config()
	return l.http.ServeTLS(l, "", "")
}

// httpServer returns a server that no slow client holds for ever. Where a handler waits or streams
// it lengthens WriteTimeout by itself.
func (s *server) httpServer(h http.Handler) *http.Server {
	f := s.flags
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: min(f.ReadTimeout, 10*time.Second),
		ReadTimeout:       f.ReadTimeout,
		WriteTimeout:      f.ReadTimeout + f.RequestTimeout + 15*time.Second,
		IdleTimeout:       f.IdleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelInfo),
	}
}

// ownNames refuses requests that name another host than this machine. It is for a server that lets
// in whoever is on this machine: a browser is, with every page that it shows, and a page's own name
// can be made to lead here (DNS rebinding).
func ownNames(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		if local, err := loopback(net.JoinHostPort(strings.Trim(host, "[]"), "0")); host != "" && (err != nil || !local) {
			refuse(w, wire.NewError(wire.SlugForbidden, "without keys only requests to this machine's own names are served, such as localhost and 127.0.0.1"))
			return
		}
		next.ServeHTTP(w, r)
	})
}
