package rig

import (
	"bytes"
	"strconv"
)

// Commands counts the commands in what a client sends to a Redis server, in whatever pieces
// it comes. The zero value is ready.
type Commands struct {
	rest  []byte // of a line that has not ended
	skip  int    // bytes of a value that are still to come, with its line end
	words int    // of the command that are still to come
	first bool   // the next word is the command's name
	name  []byte
}

// uncounted is what a client says on its own account.
var uncounted = map[string]bool{"HELLO": true, "CLIENT": true, "PING": true, "AUTH": true, "SELECT": true, "INFO": true}

// Count takes the next piece and returns how many commands ended in it.
func (c *Commands) Count(piece []byte) int {
	n := 0
	for len(piece) > 0 {
		if c.skip > 0 {
			k := min(c.skip, len(piece))
			if c.first {
				c.name = append(c.name, piece[:k]...)
			}
			piece = piece[k:]
			if c.skip -= k; c.skip > 0 {
				return n
			}
			if c.first {
				c.name, c.first = bytes.ToUpper(bytes.TrimSpace(c.name)), false
			}
			c.words--
			if c.words == 0 && !uncounted[string(c.name)] {
				n++
			}
			continue
		}
		end := bytes.IndexByte(piece, '\n')
		if end < 0 {
			c.rest = append(c.rest, piece...)
			return n
		}
		c.rest = append(c.rest, piece[:end]...)
		piece = piece[end+1:]
		c.line(bytes.TrimRight(c.rest, "\r"))
		c.rest = c.rest[:0]
	}
	return n
}

// line takes "*3", a command of three words, or "$5", a word of five bytes.
func (c *Commands) line(line []byte) {
	if len(line) < 2 {
		return
	}
	size, err := strconv.Atoi(string(line[1:]))
	if err != nil {
		return
	}
	switch line[0] {
	case '*':
		c.words, c.first, c.name = size, true, c.name[:0]
	case '$':
		c.skip = size + len("\r\n")
	}
}
