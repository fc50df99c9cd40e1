package gateway

import (
	"crypto/rand"
	"encoding/hex"
	"strconv"
	"strings"
	"sync"

	"github.com/fencegate/fencegate/fencing"
)

// defaultFeed is how many events a Feed remembers.
const defaultFeed = 4096

// Feed keeps the last events of this process for those who watch. Its events are numbered from 1;
// an event's id is that and the id of the feed, which is another one in every process. It is safe
// for concurrent use and needs no closing.
type Feed struct {
	id string

	mu   sync.Mutex // guards what follows; nothing blocks under it
	ring []fencing.Event
	last uint64        // the number of the newest event; it is at ring[last%len(ring)]
	more chan struct{} // closed by the next Add; nil while nobody waits
}

// NewFeed returns a feed that remembers up to size events, 1 to 1,000,000; default: 4096. The
// error is a [*fencing.InvalidError].
func NewFeed(size int) (*Feed, error) {
	if size == 0 {
		size = defaultFeed
	}
	if size < 1 || size > 1_000_000 {
		return nil, &fencing.InvalidError{What: "feed size", Got: strconv.Itoa(size), Allowed: "1 to 1000000"}
	}
	var b [8]byte
	_, _ = rand.Read(b[:])
	return &Feed{id: hex.EncodeToString(b[:]), ring: make([]fencing.Event, size)}, nil
}

// Add takes an event in. It never blocks: watchers that are too slow miss events, and are told.
func (f *Feed) Add(e fencing.Event) {
	f.mu.Lock()
	f.last++
	f.ring[f.last%uint64(len(f.ring))] = e
	more := f.more
	f.more = nil
	f.mu.Unlock()
	if more != nil {
		close(more)
	}
}

// newest returns the number of the newest event, 0 before the first.
func (f *Feed) newest() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last
}

// wait returns a channel that is closed once there is an event after the one of that number.
func (f *Feed) wait(after uint64) <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.last > after {
		return closed
	}
	if f.more == nil {
		f.more = make(chan struct{})
	}
	return f.more
}

var closed = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// read copies the events after the one of that number into buf, the oldest first, as many as fit.
// missed is how many of them the feed has forgotten. The events read have the numbers
// after+missed+1, and so on.
func (f *Feed) read(after uint64, buf []fencing.Event) (n int, missed uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	size := uint64(len(f.ring))
	if f.last-after > size {
		missed = f.last - after - size
	}
	for next := after + missed + 1; n < len(buf) && next <= f.last; next++ {
		buf[n] = f.ring[next%size]
		n++
	}
	return n, missed
}

// eventID is the SSE id of an event.
func (f *Feed) eventID(number uint64) string {
	return f.id + "-" + strconv.FormatUint(number, 10)
}

// resume returns the number of the event that a Last-Event-ID names; ok is false if it is none of
// this feed's.
func (f *Feed) resume(id string) (number uint64, ok bool) {
	digits, ours := strings.CutPrefix(id, f.id+"-")
	number, err := strconv.ParseUint(digits, 10, 64)
	return number, ours && err == nil && number <= f.newest()
}
