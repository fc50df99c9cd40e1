package storagetest

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/storage"
)

// WritersEnv is a variable of the environment that says for how long the writers with random
// tokens are at work, as a Go duration. Default: 2s. With the race detector a broken store of the
// self-test is found in a fraction of that.
const WritersEnv = "FENCEGATE_TEST_WRITERS"

// randomWriters lets 16 writers raise, retire and write with random tokens, old ones, newer ones
// and ones that nobody raised, with and without a key. What was accepted, in the order that a
// counter inside the fence gives, must be a sequence of epochs, one token each.
func randomWriters(r *run) {
	lasts := 2 * time.Second
	if text := os.Getenv(WritersEnv); text != "" {
		var err error
		lasts, err = time.ParseDuration(text)
		r.ok(err, WritersEnv)
	}
	w := &crowd{run: r, resource: r.resource()}
	w.tokens = []fencing.Token{w.raised(w.resource, 1)}
	end := time.Now().Add(lasts)
	latest := end.Add(slack)
	r.parallel(writers, func(int) {
		for now := time.Now(); (now.Before(end) || now.Before(latest) && !w.shows()) && !r.Failed(); now = time.Now() {
			w.step()
		}
	})
	w.judge()
}

// slack is how much longer the writers stay at work where a busy machine has let them do too little to
// show anything.
const slack = 30 * time.Second

type crowd struct {
	*run
	resource string
	raisedTo atomic.Int64 // the highest number that is known to have been a mark's
	failed   atomic.Int64

	mu       sync.Mutex // guards everything below
	tokens   []fencing.Token
	ended    map[fencing.Token]bool // retired, and the call has returned
	accepted []witnessed
	owners   map[fencing.Token]bool // of what was accepted
	sent     []sent                 // with a key, and applied
}

type witnessed struct {
	sum, version int64
	t            fencing.Token
}

type sent struct {
	key string
	ops []storage.Op
	res storage.Result
}

// step does one thing with a random token.
func (w *crowd) step() {
	t := w.pick()
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	defer cancel()
	switch n := rand.IntN(20); {
	case n < 2:
		w.check(t, w.s.Fence.Raise(ctx, t), func() { w.seen(t) })
	case n < 3:
		wasRaised := t.Number <= w.raisedTo.Load() // else it may find no mark, and end nothing
		w.check(t, w.s.Fence.Retire(ctx, t), func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.ended == nil {
				w.ended = map[fencing.Token]bool{}
			}
			w.ended[t] = w.ended[t] || wasRaised
		})
	case n < 5:
		w.again(ctx, t)
	default:
		w.write(ctx, t, n)
	}
}

// seen notes that t is or was the mark.
func (w *crowd) seen(t fencing.Token) {
	for {
		now := w.raisedTo.Load()
		if t.Number <= now || w.raisedTo.CompareAndSwap(now, t.Number) {
			return
		}
	}
}

// pick returns one of the newest tokens, an older one, or a new one that nobody has raised yet.
func (w *crowd) pick() fencing.Token {
	w.mu.Lock()
	defer w.mu.Unlock()
	last := len(w.tokens) - 1
	switch n := rand.IntN(40); {
	case n == 0: // newer, or another grant of the same number
		t := token(w.resource, max(1, w.tokens[last].Number+int64(rand.IntN(3))))
		w.tokens = append(w.tokens, t)
		return t
	case n < 4:
		return w.tokens[rand.IntN(last+1)]
	case n < 20:
		return w.tokens[max(0, last-1)]
	}
	return w.tokens[last]
}

func (w *crowd) write(ctx context.Context, t fencing.Token, n int) {
	key := ""
	if n%4 == 0 {
		key = fencing.NewGrant()
	}
	ops := []storage.Op{storage.Add(w.resource, "log", 1, 0), storage.Put(w.resource, "owner", []byte(strconv.Itoa(n)))}
	raised := w.raisedTo.Load()
	w.mu.Lock()
	ended := w.ended[t]
	w.mu.Unlock()
	res, err := w.s.Store.Commit(ctx, storage.Commit{Tokens: []fencing.Token{t}, Ops: ops, Key: key})
	w.check(t, err, func() {
		if raised > t.Number || ended {
			w.Errorf("a write of %d was accepted that began after %d was raised; its token was retired before: %t", t.Number, raised, ended)
		}
		w.seen(t)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.accepted = append(w.accepted, witnessed{res.Ops[0].Counter, res.Ops[0].Version, t})
		if w.owners == nil {
			w.owners = map[fencing.Token]bool{}
		}
		w.owners[t] = true
		if key != "" {
			w.sent = append(w.sent, sent{key, ops, res})
		}
	})
}

// again sends a commit again that was applied, with a token of any age.
func (w *crowd) again(ctx context.Context, t fencing.Token) {
	w.mu.Lock()
	if len(w.sent) == 0 {
		w.mu.Unlock()
		return
	}
	old := w.sent[rand.IntN(len(w.sent))]
	w.mu.Unlock()
	res, err := w.s.Store.Commit(ctx, storage.Commit{Tokens: []fencing.Token{t}, Ops: old.ops, Key: old.key})
	if errors.Is(err, fencing.ErrStale) {
		w.Errorf("sent again: got %v, want the answer of then", err)
	}
	w.check(t, err, func() {
		if !res.Replayed || !reflect.DeepEqual(res.Ops, old.res.Ops) {
			w.Errorf("sent again: got %+v, want the answer of then, %+v", res, old.res)
		}
	})
}

// check calls applied if err is nil, and complains of what may not be.
func (w *crowd) check(t fencing.Token, err error, applied func()) {
	switch {
	case err == nil:
		applied()
	case strings.Contains(strings.ToLower(err.Error()), "deadlock"):
		w.Errorf("with %v: %v", t, err)
	case errors.Is(err, fencing.ErrStale):
	case fencing.OutcomeOf(err) == fencing.Failed && w.Context().Err() == nil:
		w.failed.Add(1)
	default:
		w.Errorf("with %v: got %v, want applied or stale", t, err)
	}
}

// shows reports whether enough was accepted to judge by.
func (w *crowd) shows() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.owners) > 1 && w.failed.Load() <= int64(len(w.accepted))
}

func (w *crowd) judge() {
	slices.SortFunc(w.accepted, func(a, b witnessed) int { return int(a.sum - b.sum) })
	epochs := map[fencing.Token]bool{}
	for i, a := range w.accepted {
		if a.sum != int64(i+1) || a.version != a.sum {
			w.Fatalf("the %d. accepted write got sum %d, version %d: want both %d", i+1, a.sum, a.version, i+1)
		}
		if i == 0 || w.accepted[i-1].t == a.t {
			epochs[a.t] = true
			continue
		}
		if last := w.accepted[i-1].t; a.t.Number <= last.Number || epochs[a.t] {
			w.Fatalf("a write of %d was accepted after one of %d (of one grant = %t)", a.t.Number, last.Number, a.t.Grant == last.Grant)
		}
		epochs[a.t] = true
	}
	if !w.shows() {
		w.Errorf("got %d writes of %d tokens accepted, and %d attempts failed: too few to show anything", len(w.accepted), len(epochs), w.failed.Load())
	}
	w.wantRecord(w.resource, "log", strconv.Itoa(len(w.accepted)), int64(len(w.accepted)))
}
