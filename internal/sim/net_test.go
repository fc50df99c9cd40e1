package sim_test

import (
	"container/heap"
	"context"
	"errors"
	"sync"
	"testing/synctest"
	"time"

	"github.com/fencegate/fencegate/fencing"
)

// cell is one tick of the simulated world: whatever the network delivers, it delivers at a
// multiple of it, one message after the other.
const cell = 100 * time.Millisecond

// patience is after how many cells without a reply the driver gives up.
const patience = 6

var (
	errDown    = errors.New("sim: the connection was refused")
	errTimeout = errors.New("sim: no reply")
)

// network delivers messages between processes and hosts. What becomes of one is decided by the
// seed and by the message's name (who, what, the how manieth), never by when exactly it was sent:
// so the product's own jitter changes nothing.
type network struct {
	seed  uint64
	p     profile
	log   *log
	start time.Time

	mu      sync.Mutex // guards what follows
	queue   events
	seq     int
	sent    map[string]int
	heal    int // from this cell on nothing is lost or late
	closing bool
	earlier chan struct{} // holds one element when the queue has a new first event
}

// event is something that the network does at the beginning of a cell.
type event struct {
	at    int
	order uint64 // within the cell
	seq   int
	proc  *process    // whom it reaches; it waits while that one is stopped; nil: nobody
	do    func() bool // reports whether somebody was woken
}

type events []event

func (q events) Len() int { return len(q) }
func (q events) Less(i, j int) bool {
	a, b := q[i], q[j]
	if a.at != b.at {
		return a.at < b.at
	}
	if a.order != b.order {
		return a.order < b.order
	}
	return a.seq < b.seq
}
func (q events) Swap(i, j int) { q[i], q[j] = q[j], q[i] }

// Push is for container/heap.
func (q *events) Push(x any) { *q = append(*q, x.(event)) }

// Pop is for container/heap.
func (q *events) Pop() any {
	old := *q
	e := old[len(old)-1]
	*q = old[:len(old)-1]
	return e
}

func (n *network) elapsed() time.Duration { return time.Since(n.start) }

// now is the present cell.
func (n *network) now() int { return int(n.elapsed() / cell) }

// at lets do happen at the beginning of a cell after this one.
func (n *network) at(when int, order uint64, proc *process, do func() bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.seq++
	first := len(n.queue) == 0 || when < n.queue[0].at
	heap.Push(&n.queue, event{at: max(when, n.now()+1), order: order, seq: n.seq, proc: proc, do: do})
	if first {
		select {
		case n.earlier <- struct{}{}:
		default:
		}
	}
}

// close lets run end once nothing is on its way any more.
func (n *network) close() {
	n.mu.Lock()
	n.closing = true
	n.mu.Unlock()
	n.at(0, 0, nil, func() bool { return false })
}

// run delivers, until the network is closed and empty. Whatever a delivery wakes has come to rest
// before the next one.
func (n *network) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		n.mu.Lock()
		empty := len(n.queue) == 0
		if empty && n.closing {
			n.mu.Unlock()
			return
		}
		rest := time.Hour
		if !empty {
			rest = time.Duration(n.queue[0].at)*cell - n.elapsed()
		}
		n.mu.Unlock()
		if rest > 0 {
			timer.Reset(rest)
			select {
			case <-timer.C:
			case <-n.earlier:
			}
			continue
		}
		synctest.Wait()
		for e, ok := n.due(); ok; e, ok = n.due() {
			if e.do() {
				synctest.Wait()
			}
		}
	}
}

// due takes the next event of this cell out of the queue.
func (n *network) due() (event, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := n.now()
	for len(n.queue) > 0 && n.queue[0].at <= now {
		e, _ := heap.Pop(&n.queue).(event)
		if e.proc != nil && e.proc.resumes > now {
			e.at = e.proc.resumes
			heap.Push(&n.queue, e)
			continue
		}
		return e, true
	}
	return event{}, false
}

// link is the way from a process to a host.
type link struct {
	net  *network
	from *process
	to   *host
	cut  [2]int // requests and replies are lost until these cells; net.mu guards it
}

// host is a server: the simulated network knows whether it is up.
type host struct {
	name string
	down bool // this and epoch are used by the network's goroutine alone
	runs int  // how often it was started
}

// fate is what the seed has in store for one message.
type fate struct {
	order             uint64
	out, back         int // cells on the way
	again             int // cells after which the request arrives once more; 0: never
	loseOut, loseBack bool
	refused           bool // a host that is down says so
}

func (n *network) fate(name string) fate {
	n.mu.Lock()
	n.sent[name]++
	r := roller(hash(n.seed, name, uint64(n.sent[name])))
	healed := n.now() >= n.heal
	n.mu.Unlock()
	f := fate{order: r.next(), refused: r.chance(0.5)}
	late := func() int {
		switch {
		case r.chance(n.p.late):
			return r.upTo(30)
		case r.chance(n.p.slow):
			return 1 + r.upTo(5)
		case r.chance(0.2):
			return 1
		}
		return 0
	}
	f.out, f.back = late(), late()
	f.loseOut, f.loseBack = r.chance(n.p.lose), r.chance(n.p.lose)
	if r.chance(n.p.double) {
		f.again = 1 + r.upTo(40)
	}
	if healed {
		f.out, f.back, f.loseOut, f.loseBack, f.again = min(f.out, 1), min(f.back, 1), false, false, 0
	}
	return f
}

// call sends a request to a host, which handles it there, and returns the reply. It returns at
// the beginning of a cell; its context's end it notices at the next one.
func call[R any](ctx context.Context, l *link, kind, about string, handle func() (R, error)) (R, error) {
	n := l.net
	var got R
	var gotErr error
	if err := ctx.Err(); err != nil {
		return got, fencing.AsFailed(err)
	}
	name := l.from.name + " " + kind + " " + about
	f := n.fate(name)
	done := make(chan struct{})
	finished := false // used by the network's goroutine alone, and got until then
	finish := func(r R, err error) bool {
		if finished {
			return false
		}
		finished, got, gotErr = true, r, err
		close(done)
		return true
	}
	n.mu.Lock()
	sent := max(n.now(), l.from.resumes) // a stopped process sends nothing
	n.mu.Unlock()
	var zero R
	met, runs := false, 0 // whether the first copy has come, and to which run of the host
	arrive := func(first bool) func() bool {
		return func() bool {
			if !first && (!met || runs != l.to.runs) {
				return false // the connection that it was sent on has ended
			}
			switch {
			case l.isCut(0):
				return false
			case l.to.down:
				if first && f.refused {
					n.at(0, f.order, l.from, func() bool { return finish(zero, fencing.AsFailed(errDown)) })
				}
				return false
			}
			met, runs = true, l.to.runs
			r, err := handle()
			n.log.add(n.now(), "%s%s: %s", name, copyName(first), outcome(r, err))
			if first && !f.loseBack && !l.isCut(1) {
				n.at(n.now()+1+f.back, f.order, l.from, func() bool { return finish(r, err) })
			}
			return false
		}
	}
	if !f.loseOut {
		n.at(sent+1+f.out, f.order, nil, arrive(true))
		if f.again > 0 {
			n.at(sent+1+f.out+f.again, f.order, nil, arrive(false))
		}
	}
	n.at(sent+1+patience, ^f.order, l.from, func() bool { return finish(zero, fencing.AsUnknown(errTimeout)) })
	stop := context.AfterFunc(ctx, func() {
		n.at(0, ^f.order, nil, func() bool { return finish(zero, fencing.AsUnknown(ctx.Err())) })
	})
	<-done
	stop()
	return got, gotErr
}

func copyName(first bool) string {
	if first {
		return ""
	}
	return " (once more)"
}

func (l *link) isCut(way int) bool {
	l.net.mu.Lock()
	defer l.net.mu.Unlock()
	return l.net.now() < l.cut[way]
}
