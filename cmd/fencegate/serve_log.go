package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"

	"golang.org/x/term"
)

// logger writes to w as the flags say.
func (c *serveCmd) logger(w io.Writer) *slog.Logger {
	o := &slog.HandlerOptions{Level: c.LogLevel}
	if c.forPeople(w) {
		return slog.New(slog.NewTextHandler(w, o))
	}
	return slog.New(slog.NewJSONHandler(w, o))
}

// forPeople reports whether what goes to w is text: else every line of it is JSON.
func (c *serveCmd) forPeople(w io.Writer) bool {
	f, ok := w.(*os.File)
	return c.LogFormat == "text" || c.LogFormat == "auto" && ok && term.IsTerminal(int(f.Fd()))
}

// tryIt are the lines to begin with: take the lock, write with its token, release it and come
// late. The resource is a new one as long as nobody has tried before.
const tryIt = `Try it:
  TOKEN=$(curl -s --json '{"ttl": "1m"}' %[1]s/v1/resources/coupon:42/lock | sed 's/.*"token":"\([^"]*\)".*/\1/')
  curl -i -X PUT -H "Fencing-Token: $TOKEN" -d 10 %[1]s/v1/resources/coupon:42/records/left
  curl -s -X DELETE -H "Fencing-Token: $TOKEN" %[1]s/v1/resources/coupon:42/lock; curl -i -X PUT -H "Fencing-Token: $TOKEN" -d 9 %[1]s/v1/resources/coupon:42/records/left
The first takes the lock, the second writes with its token; the third gives the lock back and writes too late: it is refused.
`

// announce tells where the server listens: the log; people on standard error, where that is for
// them, and who may try it without a key how to begin; then programs on standard output, if they
// asked.
func (s *server) announce(std stdio) error {
	c, url := s.flags, s.url(s.public())
	s.log.Info("serving", "url", url, "admin_url", s.adminURL(), "lock", c.Lock, "store", c.Store,
		"mode", c.Mode, "keys", c.Keys != "", "tls", s.cert != nil, "version", programVersion())
	if c.forPeople(std.err) {
		where := c.Store
		if c.Store == "sqlite" {
			where += " (" + c.SqlitePath + ")"
		}
		fmt.Fprintf(std.err, "fencegate serves %s: lock %s, store %s\n", url, c.Lock, where)
		if local, err := loopback(c.Listen); err == nil && local && c.Keys == "" && s.cert == nil {
			fmt.Fprintf(std.err, tryIt, url)
		}
	}
	if c.Output != "json" {
		return nil
	}
	out := struct {
		URL      string `json:"url"`
		AdminURL string `json:"admin_url,omitempty"`
		Lock     string `json:"lock"`
		Store    string `json:"store"`
		Mode     string `json:"mode"`
	}{URL: url, AdminURL: s.adminURL(), Lock: c.Lock, Store: c.Store, Mode: c.Mode}
	return writeJSON(std.out, out)
}

func (s *server) url(l *listener) string {
	if s.cert != nil {
		return "https://" + l.addr()
	}
	return "http://" + l.addr()
}

// adminURL is "" without --admin-listen.
func (s *server) adminURL() string {
	if len(s.listening) > 1 {
		return s.url(s.listening[0])
	}
	return ""
}
