package lab

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// inside is the server that the sessions' clients talk to: the lab's own handler behind a real HTTP
// server and real connections, but without a port.
type inside struct {
	client *http.Client
	wire   *http.Transport
	server *http.Server
	served chan error
}

// fromInside marks the requests of the sessions' own clients.
type fromInside struct{}

func startInside(h http.Handler) *inside {
	l := &memListener{conns: make(chan net.Conn), closed: make(chan struct{})}
	i := &inside{served: make(chan error, 1)}
	i.wire = &http.Transport{
		DialContext:         func(ctx context.Context, _, _ string) (net.Conn, error) { return l.dial(ctx) },
		DisableCompression:  true,
		MaxIdleConnsPerHost: 8,
		IdleConnTimeout:     time.Minute,
	}
	i.client = &http.Client{
		Transport:     i.wire,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	i.server = &http.Server{
		ReadHeaderTimeout: 10 * time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			// Whatever the lab is mounted under, its own paths begin here.
			if k := strings.Index(r.URL.Path, sessionsPath); k > 0 {
				http.StripPrefix(r.URL.Path[:k], h).ServeHTTP(w, r)
				return
			}
			h.ServeHTTP(w, r)
		}),
		BaseContext: func(net.Listener) context.Context {
			return context.WithValue(context.Background(), fromInside{}, true)
		},
	}
	go func() { i.served <- i.server.Serve(l) }()
	return i
}

func (i *inside) close() error {
	err := i.server.Close()
	i.wire.CloseIdleConnections()
	if served := <-i.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	i.served <- http.ErrServerClosed // for whoever closes again
	return err
}

// memListener is a net.Listener whose connections are pipes in this process.
type memListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *memListener) dial(ctx context.Context) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case l.conns <- there:
		return here, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements net.Listener.
func (l *memListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *memListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements net.Listener.
func (l *memListener) Addr() net.Addr { return memAddr{} }

type memAddr struct{}

func (memAddr) Network() string { return "memory" }
func (memAddr) String() string  { return "lab" }
