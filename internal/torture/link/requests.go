package link

import (
	"bufio"
	"bytes"
	"net/http"
	"strconv"
	"strings"
)

// largest is how long a request may be to be understood; after a longer one nothing of the connection
// is repeated any more.
const largest = 1 << 20

// requests cuts what a client sends into whole requests, as long as it understands the protocol.
// The zero value is at the beginning of a connection.
type requests struct {
	rest    []byte // of a request that is not whole yet
	blind   bool   // it does not understand it
	http    bool
	prelude []byte // Redis: what made the connection what it is
	multi   []byte // Redis: the commands since MULTI
}

// request is one that may be sent again, on a connection of its own.
type request struct {
	prelude, bytes []byte
	http           bool
}

// add takes what came next, and returns the requests that are whole with it and may be repeated.
func (r *requests) add(data []byte) []request {
	if r.blind {
		return nil
	}
	r.rest = append(r.rest, data...)
	var whole []request
	for len(r.rest) > 0 && !r.blind {
		r.http = r.rest[0] >= 'A' && r.rest[0] <= 'Z'
		var n int
		var q []byte
		if r.http {
			n = httpRequest(r.rest)
			q = r.rest[:max(n, 0)]
		} else {
			var name string
			if n, name = redisCommand(r.rest); n > 0 {
				q = r.redis(name, r.rest[:n])
			}
		}
		if n == 0 && len(r.rest) <= largest {
			break
		}
		if n <= 0 {
			r.blind = true
			r.rest, r.prelude, r.multi = nil, nil, nil
			break
		}
		if len(q) > 0 {
			whole = append(whole, request{bytes.Clone(r.preludeOf()), bytes.Clone(q), r.http})
		}
		r.rest = r.rest[n:]
	}
	if len(r.rest) == 0 {
		r.rest = nil // do not keep the array
	}
	return whole
}

func (r *requests) preludeOf() []byte {
	if r.http {
		return nil
	}
	return r.prelude
}

// redis returns what may be repeated once the command has come; nothing where it belongs to its connection.
func (r *requests) redis(name string, command []byte) []byte {
	switch name {
	case "HELLO", "AUTH", "SELECT":
		r.prelude = append(r.prelude, command...)
		return nil
	case "CLIENT", "QUIT", "RESET", "MONITOR", "WATCH", "UNWATCH",
		"SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE", "UNSUBSCRIBE", "PUNSUBSCRIBE", "SUNSUBSCRIBE":
		return nil
	case "MULTI":
		r.multi = bytes.Clone(command)
		return nil
	}
	if r.multi == nil {
		return command
	}
	r.multi = append(r.multi, command...)
	switch all := r.multi; {
	case name == "EXEC":
		r.multi = nil
		return all
	case name == "DISCARD" || len(all) > largest:
		r.multi = nil
	}
	return nil
}

// redisCommand returns the length of the command that b begins with, an array of bulk strings, and its
// name in capital letters; 0 where it is not whole, -1 where it is something else.
func redisCommand(b []byte) (int, string) {
	count, n := redisHeader(b, '*')
	if n <= 0 {
		return n, ""
	}
	if count == 0 {
		return -1, ""
	}
	name := ""
	for i := range count {
		length, header := redisHeader(b[n:], '$')
		if header <= 0 {
			return header, ""
		}
		end := n + header + length + 2
		if end > len(b) {
			return 0, ""
		}
		if i == 0 {
			name = strings.ToUpper(string(b[n+header : end-2]))
		}
		n = end
	}
	return n, name
}

// redisHeader reads a line such as "*3\r\n", and returns its number and its length; 0 where it is not whole, -1 where
// it is no such line.
func redisHeader(b []byte, kind byte) (number, n int) {
	if len(b) > 0 && b[0] != kind {
		return 0, -1
	}
	end := bytes.Index(b, []byte("\r\n"))
	if end < 0 {
		if len(b) > 20 {
			return 0, -1
		}
		return 0, 0
	}
	number, err := strconv.Atoi(string(b[1:end]))
	if err != nil || number < 0 || number > largest {
		return 0, -1
	}
	return number, end + 2
}

// httpRequest returns the length of the request that b begins with; 0 where it is not whole, -1 where it cannot be
// repeated as it is.
func httpRequest(b []byte) int {
	head := bytes.Index(b, []byte("\r\n\r\n"))
	if head < 0 {
		return 0
	}
	head += 4
	q, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(b[:head])))
	if err != nil || q.ProtoMajor != 1 || q.ContentLength < 0 || q.Header.Get("Upgrade") != "" {
		return -1
	}
	_ = q.Body.Close() // nothing of it was given to ReadRequest
	if int64(len(b)-head) < q.ContentLength {
		return 0
	}
	return head + int(q.ContentLength)
}
