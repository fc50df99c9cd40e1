package rig

import "encoding/binary"

// Questions counts in what a client sends to a PostgreSQL server, in whatever pieces it comes,
// the messages after which it waits for an answer: Sync and Query. A batch ends in one of
// them, and so does the preparing of a statement. The zero value is ready. The connection must
// not be encrypted.
type Questions struct {
	begun bool // the first message, which has no type, is over
	head  []byte
	skip  int // bytes of a message that are still to come
}

// Count takes the next piece and returns how many questions began in it.
func (q *Questions) Count(piece []byte) int {
	n := 0
	for len(piece) > 0 {
		if q.skip > 0 {
			k := min(q.skip, len(piece))
			piece, q.skip = piece[k:], q.skip-k
			continue
		}
		size := 4 // its length, with these four bytes
		if q.begun {
			size = 5 // behind its type
		}
		k := min(size-len(q.head), len(piece))
		q.head, piece = append(q.head, piece[:k]...), piece[k:]
		if len(q.head) < size {
			continue
		}
		if q.begun && (q.head[0] == 'S' || q.head[0] == 'Q') {
			n++
		}
		q.skip = int(binary.BigEndian.Uint32(q.head[size-4:])) - 4
		q.begun, q.head = true, q.head[:0]
	}
	return n
}
