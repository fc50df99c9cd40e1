package main

import (
	"fmt"
	"math"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/fencegate/fencegate/gateway"
)

// listenFlags say where the server is reached, and by whom.
type listenFlags struct {
	Listen      string   `default:"127.0.0.1:8080" env:"FENCEGATE_LISTEN" help:"HOST:PORT to serve; port 0 picks a free one (default: ${default})."`
	AdminListen string   `placeholder:"HOST:PORT" env:"FENCEGATE_ADMIN_LISTEN" help:"Where /metrics and what needs the scope admin is served instead."`
	TLSCert     string   `name:"tls-cert" placeholder:"FILE" env:"FENCEGATE_TLS_CERT" help:"The certificate and its chain, PEM: serve https, on both addresses. Read again when it changes."`
	TLSKey      string   `name:"tls-key" placeholder:"FILE" env:"FENCEGATE_TLS_KEY" help:"The certificate's private key, PEM."`
	Keys        string   `placeholder:"FILE" env:"FENCEGATE_KEYS" help:"Who may do what: the file of API keys that fencegate keys writes. Read again when it changes."`
	Insecure    bool     `env:"FENCEGATE_INSECURE" help:"Serve addresses other than loopback without --keys: whoever reaches them may do everything."`
	Origin      []string `placeholder:"ORIGIN" env:"FENCEGATE_ORIGIN" help:"A web origin, https://example.org, whose scripts may call the gateway; may be given again. Default: none."`
	Lab         bool     `env:"FENCEGATE_LAB" help:"Serve the lab, too, at /lab/: whoever reaches the address may play there, without a key, on resources of its own named lab:SESSION.…"`
}

// limitFlags bound what clients may ask for.
type limitFlags struct {
	Rate             float64       `placeholder:"N" env:"FENCEGATE_RATE" help:"Requests a second of one key, or of one client address where there are no keys. Default: no limit."`
	MaxConnections   int           `default:"25000" env:"FENCEGATE_MAX_CONNECTIONS" help:"Connections at once; more wait to be accepted (default: ${default})."`
	MaxInFlight      int           `default:"1024" env:"FENCEGATE_MAX_IN_FLIGHT" help:"Requests that are worked on at once; above it: 503 (default: ${default})."`
	MaxWaiting       int           `default:"20000" env:"FENCEGATE_MAX_WAITING" help:"Requests that wait for locks at once; above it: 503 (default: ${default})."`
	MaxWaitingPerKey *int          `placeholder:"N" env:"FENCEGATE_MAX_WAITING_PER_KEY" help:"The same for one key or client address. Default: --max-waiting."`
	MaxWaiters       int           `default:"10000" env:"FENCEGATE_MAX_WAITERS" help:"The same for one resource (default: ${default})."`
	MaxStreams       int           `default:"1000" env:"FENCEGATE_MAX_STREAMS" help:"Event streams at once (default: ${default})."`
	MaxBodies        size          `default:"256MiB" env:"FENCEGATE_MAX_BODIES" help:"Bytes of bodies in memory at once; above it: 503 (default: ${default})."`
	MaxBody          size          `default:"8MiB" env:"FENCEGATE_MAX_BODY" help:"The largest JSON body (default: ${default})."`
	MaxValue         size          `default:"1MiB" env:"FENCEGATE_MAX_VALUE" help:"The largest value of a record (default: ${default})."`
	MaxReply         size          `default:"8MiB" env:"FENCEGATE_MAX_REPLY" help:"The values that one list returns at most (default: ${default})."`
	MaxOps           int           `default:"256" env:"FENCEGATE_MAX_OPS" help:"Operations in one commit (default: ${default})."`
	MaxWait          time.Duration `default:"1m" env:"FENCEGATE_MAX_WAIT" help:"The longest wait for a lock that a request may ask for, 30s to 1h: this program's other commands and the Go client ask for 30s at a time, and would be refused by less (default: ${default})."`
	RequestTimeout   time.Duration `default:"30s" env:"FENCEGATE_REQUEST_TIMEOUT" help:"What a request may take beside waiting for a lock (default: ${default})."`
	ReadTimeout      time.Duration `default:"30s" env:"FENCEGATE_READ_TIMEOUT" help:"What a client may take to send a request (default: ${default})."`
	IdleTimeout      time.Duration `default:"2m" env:"FENCEGATE_IDLE_TIMEOUT" help:"How long a connection is kept for the next request (default: ${default})."`
}

func (l limitFlags) limit(g *gateway.Options) {
	g.Rate, g.MaxInFlight, g.MaxWaiting = l.Rate, l.MaxInFlight, l.MaxWaiting
	if l.MaxWaitingPerKey != nil {
		g.MaxWaitingPerKey = *l.MaxWaitingPerKey
	}
	g.MaxStreams, g.MaxBodies, g.MaxBody, g.MaxValue, g.MaxReply = l.MaxStreams, int64(l.MaxBodies), int(l.MaxBody), int(l.MaxValue), int(l.MaxReply)
	g.MaxWait, g.Timeout = l.MaxWait, l.RequestTimeout
}

// size is a number of bytes, such as 1MiB.
type size int64

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *size) UnmarshalText(text []byte) error {
	n, err := humanize.ParseBytes(string(text))
	if err != nil || n > math.MaxInt64 {
		return fmt.Errorf("%q: want a number of bytes, such as 65536, 64KiB or 1MiB", text)
	}
	*s = size(n)
	return nil
}
