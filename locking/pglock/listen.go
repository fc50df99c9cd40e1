package pglock

import (
	"context"
	"crypto/rand"
	"strings"
	"sync"
	"time"

	mathrand "math/rand/v2"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/internal/pgtx"
	"github.com/fencegate/fencegate/locking"
)

const (
	connectTimeout = 10 * time.Second // for a connection that listens, until it does
	checkEvery     = 10 * time.Second // a connection on which nothing comes is asked whether it lives
	minBackoff     = 50 * time.Millisecond
	maxBackoff     = 5 * time.Second
)

// word brings word of hand-overs to those who wait here: they are registered from before
// their first Join is sent until they have left. One connection listens from when the first
// of them found the lock held until LookEvery after the last one left. What goes wrong
// with it costs nobody more than LookEvery, and so is nobody's error.
type word struct {
	open    func(context.Context) (*pgx.Conn, error) // nil: nobody listens
	channel string                                   // where it listens; empty: nobody does

	mu     sync.Mutex                   // guards what follows; wakes are called under it, so that none comes late
	wakes  map[string]map[string]func() // by resource and grant id
	end    context.CancelFunc           // of the goroutine that listens; nil if there is none
	linger *time.Timer                  // until it ends; nil if it never had a reason to
}

func newWord(open func(context.Context) (*pgx.Conn, error)) *word {
	w := &word{open: open, wakes: map[string]map[string]func(){}}
	if open != nil {
		// An identifier that needs no quotes, and that nobody guesses who might want to wake us.
		w.channel = "fencegate_" + strings.ToLower(rand.Text())
	}
	return w
}

// besides opens connections like those of the pool, outside of it. A hook of the pool's for
// notifications would get the word in our place.
func besides(pool *pgxpool.Pool) func(context.Context) (*pgx.Conn, error) {
	return func(ctx context.Context) (*pgx.Conn, error) {
		c := pool.Config()
		if c.BeforeConnect != nil {
			if err := c.BeforeConnect(ctx, c.ConnConfig); err != nil {
				return nil, err
			}
		}
		c.ConnConfig.OnNotification = nil
		return pgx.ConnectConfig(ctx, c.ConnConfig)
	}
}

// add registers a waiter, or its new wake, and reports whether it is a new one. It opens
// nothing: most requests do not wait.
func (w *word) add(r locking.Request, wake func()) (added bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	added = w.wakes[r.Resource][r.Grant] == nil
	if w.wakes[r.Resource] == nil {
		w.wakes[r.Resource] = map[string]func(){}
	}
	w.wakes[r.Resource][r.Grant] = wake
	if w.linger != nil {
		w.linger.Stop()
	}
	return added
}

// remove returns when the waiter's wake has been called for the last time.
func (w *word) remove(r locking.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.wakes[r.Resource], r.Grant)
	if len(w.wakes[r.Resource]) == 0 {
		delete(w.wakes, r.Resource)
	}
	if len(w.wakes) > 0 || w.end == nil {
		return
	}
	if w.linger == nil {
		w.linger = time.AfterFunc(locking.LookEvery, w.lingered)
	}
	w.linger.Reset(locking.LookEvery)
}

func (w *word) lingered() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.wakes) == 0 && w.end != nil {
		w.end()
		w.end = nil
	}
}

// listen starts the goroutine that listens, unless it runs.
func (w *word) listen() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.open == nil || w.end != nil || len(w.wakes) == 0 {
		return
	}
	ctx, end := context.WithCancel(context.Background())
	w.end = end
	go w.run(ctx)
}

func (w *word) run(ctx context.Context) {
	for pause := minBackoff; ctx.Err() == nil; pause = min(2*pause, maxBackoff) {
		if w.session(ctx) {
			pause = minBackoff
		}
		pgtx.Pause(ctx, pause/2+mathrand.N(pause/2+1))
	}
}

// session listens on one connection until that is lost or ctx ends; listened says whether
// it came to that.
func (w *word) session(ctx context.Context) (listened bool) {
	starting, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	conn, err := w.open(starting)
	if err != nil || conn == nil {
		return false
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(ctx)
	}()
	if _, err := conn.Exec(starting, "listen "+w.channel); err != nil {
		return false
	}
	w.wakeAll() // who was given the lock before this did not hear of it
	for {
		n, err := next(ctx, conn)
		if err != nil {
			return true
		}
		if n != nil {
			w.wake(n.Payload)
		}
	}
}

// next waits for the next notification, nil if none came for a while and the connection lives.
func next(ctx context.Context, conn *pgx.Conn) (*pgconn.Notification, error) {
	waiting, cancel := context.WithTimeout(ctx, checkEvery)
	defer cancel()
	n, err := conn.WaitForNotification(waiting)
	if err == nil || ctx.Err() != nil || conn.IsClosed() {
		return n, err
	}
	asking, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	return nil, conn.Ping(asking)
}

func (w *word) wake(resource string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, wake := range w.wakes[resource] {
		wake()
	}
}

func (w *word) wakeAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, here := range w.wakes {
		for _, wake := range here {
			wake()
		}
	}
}
