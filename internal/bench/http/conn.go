package http

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
)

// conn is a keep-alive connection with as little around it as possible: requests are written as
// they were prepared, and of a reply only what is asked for is looked at. So a load of many
// costs the machine less than the server that it measures. It is not for concurrent use.
type conn struct {
	net  net.Conn
	read *bufio.Reader
	body []byte // of the last reply
}

func dial(ctx context.Context, addr string) (*conn, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return &conn{net: c, read: bufio.NewReaderSize(c, 1024)}, nil
}

func (c *conn) close() { _ = c.net.Close() }

// request prepares one. Each header is a line.
func request(method, path, body string, headers ...string) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: bench\r\n", method, path)
	for _, line := range headers {
		b.WriteString(line + "\r\n")
	}
	if body != "" {
		fmt.Fprintf(&b, "Content-Length: %d\r\n", len(body))
	}
	b.WriteString("\r\n" + body)
	return []byte(b.String())
}

// roundTrip sends a request and reads the reply into c.body. A status of another hundred than 2 is
// an error.
func (c *conn) roundTrip(request []byte) error {
	if _, err := c.net.Write(request); err != nil {
		return err
	}
	return c.reply()
}

var contentLength = []byte("content-length:")

func (c *conn) reply() error {
	line, err := c.read.ReadSlice('\n')
	if err != nil {
		return err
	}
	status := 0
	if len(line) > len("HTTP/1.1 200") {
		status, _ = strconv.Atoi(string(line[len("HTTP/1.1 "):len("HTTP/1.1 200")]))
	}
	size := 0
	for {
		if line, err = c.read.ReadSlice('\n'); err != nil {
			return err
		}
		if len(line) <= len("\r\n") {
			break
		}
		if n := len(contentLength); len(line) > n && bytes.EqualFold(line[:n], contentLength) {
			if size, err = strconv.Atoi(string(bytes.TrimSpace(line[n:]))); err != nil {
				return err
			}
		}
	}
	if cap(c.body) < size {
		c.body = make([]byte, size)
	}
	c.body = c.body[:size]
	if _, err := io.ReadFull(c.read, c.body); err != nil {
		return err
	}
	if status/100 != 2 {
		return fmt.Errorf("status %d: %s", status, bytes.TrimSpace(c.body))
	}
	return nil
}

// member returns the string that a member of the reply's JSON body is. Names of members are not
// told apart from texts that look like them: it is for replies that contain none.
func (c *conn) member(name string) (string, error) {
	_, rest, found := bytes.Cut(c.body, []byte(`"`+name+`":"`))
	text, _, closed := bytes.Cut(rest, []byte(`"`))
	if !found || !closed {
		return "", fmt.Errorf("a reply without %q", name)
	}
	return string(text), nil
}
