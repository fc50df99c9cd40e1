package client

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// sse reads Server-Sent Events, the event stream format of the HTML standard.
type sse struct {
	lines *bufio.Scanner
	id    string // of the last complete event, also of one without data
	heard func() // called for every line, comments too
}

// maxEvent is how many bytes one event may have.
const maxEvent = 1 << 20

var errEventTooLong = errors.New("an event is longer than 1 MiB")

func newSSE(r io.Reader, id string, heard func()) *sse {
	s := &sse{lines: bufio.NewScanner(r), id: id, heard: heard}
	s.lines.Buffer(nil, maxEvent)
	return s
}

// next returns the next event that has data. One that was cut off is none. The error is never nil
// at the end of the stream.
func (s *sse) next() (kind string, data []byte, err error) {
	id := s.id
	for s.lines.Scan() {
		s.heard()
		line := s.lines.Bytes()
		if len(line) == 0 {
			if s.id = id; data != nil {
				return kind, data, nil
			}
			kind = ""
			continue
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "event":
			kind = string(value)
		case "data":
			if data != nil {
				data = append(data, '\n')
			}
			if data = append(data, value...); len(data) > maxEvent {
				return "", nil, errEventTooLong
			}
		case "id":
			if validEventID(string(value)) {
				id = string(value)
			}
		}
	}
	if err = s.lines.Err(); err == nil {
		err = io.ErrUnexpectedEOF
	}
	if errors.Is(err, bufio.ErrTooLong) {
		err = errEventTooLong
	}
	return "", nil, err
}

// validEventID reports whether an id can be sent back in a header.
func validEventID(id string) bool {
	for i := range len(id) {
		if id[i] < '!' || id[i] > '~' {
			return false
		}
	}
	return len(id) <= 200
}
