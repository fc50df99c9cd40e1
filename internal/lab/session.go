package lab

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/trace"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/storage"
)

// The clients' lease time.
const (
	defaultTTL = 20 * time.Second
	leastTTL   = 200 * time.Millisecond
	mostTTL    = 5 * time.Minute
)

// What a session begins with. Readers of the literature know the paused client as 33 and its
// successor as 34; the stock has other numbers, so that the two are not mixed up.
const (
	initial     = 10
	firstCoupon = 33
	firstStock  = 7
	leftKey     = "left"
)

// actors are the clients of a session.
var actors = [...]string{"A", "B"}

// session is one run of the two clients under one mode.
type session struct {
	lab     *Lab
	id      string
	mode    Mode
	ttl     time.Duration
	nodes   *naive // of a session with nodes of its own; else nil
	prefix  string // of its resources: lab:ID.
	origin  string // scheme and host under which the session was begun
	path    string // of its gateway
	stage   *stage
	start   time.Time
	clients map[string]*client

	ctx  context.Context //nolint:containedctx // the session's life, which no request's outlives
	stop context.CancelFunc

	// writing is held from a write's sending until it is accounted for, so that the account can tell
	// whose write it was. Only a one-call write, which may wait for a lock, is sent without it.
	writing sync.Mutex

	mu       sync.Mutex // guards what follows, and the clients' state; nothing blocks under it
	events   []trace.Event
	changed  chan struct{} // closed, and replaced, with every change
	ready    bool          // events are told; not while the session is prepared
	marks    map[string]trace.Mark
	holds    map[string]*hold // by the short name of the resource: what the lock store holds, as far as it is known
	account  account
	touched  bool // the second resource was used
	commands int
	strange  int // requests that came to the gateway from elsewhere
	streams  int
	last     time.Time // of the last command
}

// hold is a hold as the lock's events told of it.
type hold struct {
	number int64
	label  string
	until  time.Time // no earlier does the lock store end it by itself
	over   bool
}

// preparing bounds what a session does before it begins.
const preparing = 20 * time.Second

// newSession makes a session. Nothing runs yet, and lock and store know nothing of it.
func (l *Lab) newSession(n NewSession, origin, mount string) (*session, error) {
	ttl, err := n.check()
	if err != nil {
		return nil, err
	}
	raw := make([]byte, 16)
	_, _ = rand.Read(raw) // never fails
	id := hex.EncodeToString(raw)
	s := &session{
		lab: l, id: id, mode: n.Mode, ttl: ttl, prefix: "lab:" + id + ".",
		origin: origin, path: mount + sessionsPath + id + "/gateway",
		start: time.Now(), last: time.Now(), changed: make(chan struct{}),
		marks: map[string]trace.Mark{}, holds: map[string]*hold{}, clients: map[string]*client{},
		account: account{remaining: initial, stock: initial},
	}
	lock := l.o.Lock
	if n.Lock == nodesLock {
		s.nodes = newNaive()
		lock = s.nodes
	}
	if s.stage, err = newStage(lock, l.o.Store, n.Mode, s.prefix, s.heard); err != nil {
		return nil, err
	}
	for _, name := range actors {
		s.clients[name] = newClient(s, name)
	}
	s.ctx, s.stop = context.WithCancel(context.Background()) // it outlives the request that begins it
	return s, nil
}

// prepare puts into the store what the session begins with.
func (s *session) prepare() error {
	ctx, cancel := context.WithTimeout(s.ctx, preparing)
	defer cancel()
	err := s.seed(ctx)
	if err == nil {
		err = s.look(ctx)
	}
	switch {
	case s.ctx.Err() != nil:
		return errOver
	case err != nil:
		return fmt.Errorf("preparing the session: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready = true
	return nil
}

const nodesLock = "nodes"

// check validates the body that begins a session.
func (n NewSession) check() (ttl time.Duration, err error) {
	if !slices.ContainsFunc(modes(), func(m ModeAbout) bool { return m.Mode == n.Mode }) {
		return 0, &fencing.InvalidError{What: "mode", Got: string(n.Mode), Allowed: "none, lock, writes or grant"}
	}
	if n.Lock != "" && n.Lock != nodesLock {
		return 0, &fencing.InvalidError{What: "lock", Got: n.Lock, Allowed: "nothing, for the configured one, or nodes"}
	}
	if ttl, err = time.ParseDuration(cmp.Or(n.TTL, defaultTTL.String())); err != nil || ttl < leastTTL || ttl > mostTTL || ttl%time.Millisecond != 0 {
		return 0, &fencing.InvalidError{What: "ttl", Got: n.TTL, Allowed: leastTTL.String() + " to " + mostTTL.String() + ", in whole milliseconds"}
	}
	return ttl, nil
}

// seed puts 10 of each into the store, under the number before the first client's.
func (s *session) seed(ctx context.Context) error {
	for name, first := range map[string]int64{Coupon: firstCoupon, Stock: firstStock} {
		g, err := s.stage.issuer.Grant(ctx, locking.Request{
			Resource: s.resource(name), Label: "seed", TTL: 10 * time.Second, Floor: first - 2,
		})
		if err != nil {
			return err
		}
		if _, err := s.stage.store.Put(ctx, g.Token, leftKey, storage.Counter(initial)); err != nil {
			return err
		}
		if _, err := s.stage.issuer.Release(ctx, g.Token); err != nil {
			return err
		}
	}
	return nil
}

// resource returns the name of coupon or stock in lock and store.
func (s *session) resource(short string) string { return s.prefix + short }

// run is the session's own goroutine: it watches for holds that end by themselves, and for the
// session's own end.
func (s *session) run() {
	defer s.lab.running.Done()
	var clients sync.WaitGroup
	for _, c := range s.clients {
		clients.Go(c.run)
	}
	for s.ctx.Err() == nil {
		t := time.NewTimer(time.Until(s.nextLook()))
		select {
		case <-s.ctx.Done():
		case <-t.C:
			if time.Now().After(s.ends()) {
				s.end()
			}
			s.expired(s.ctx)
		}
		t.Stop()
	}
	s.lab.forget(s)
	s.stage.gateway.Drain() // nobody waits any more
	clients.Wait()
	s.tidy()
}

// end ends the session; what runs in it ends soon after.
func (s *session) end() { s.stop() }

// ends is when the session is forgotten if nothing happens.
func (s *session) ends() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.endsLocked()
}

func (s *session) endsLocked() time.Time {
	idle, age := s.last.Add(s.lab.o.Idle), s.start.Add(s.lab.o.MaxAge)
	if age.Before(idle) {
		return age
	}
	return idle
}

func (s *session) idle() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.last)
}

// now is the session's clock, in milliseconds.
func (s *session) now() int64 { return s.since(time.Now()) }

func (s *session) since(t time.Time) int64 { return t.Sub(s.start).Milliseconds() }

// tell adds an event, which it returns as it is told.
func (s *session) tell(e trace.Event) trace.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tellLocked(e)
}

func (s *session) tellLocked(e trace.Event) trace.Event {
	e.Seq = len(s.events) + 1
	if e.DoneMS == 0 {
		e.DoneMS = s.now()
	}
	if len(s.events) < s.lab.o.Events {
		s.events = append(s.events, e)
	}
	if e.Damage != "" {
		s.account.damage = append(s.account.damage, e.Damage)
	}
	s.changedLocked()
	return e
}

// changedLocked says that the state of the session has changed.
func (s *session) changedLocked() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// after returns the events after the one with the number seq, the state, and what is closed when
// either has changed.
func (s *session) after(seq int) ([]trace.Event, State, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.events[min(max(seq, 0), len(s.events)):]), s.stateLocked(), s.changed
}

func (s *session) state() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stateLocked()
}

func (s *session) stateLocked() State {
	st := State{
		ID: s.id, Mode: s.mode, NowMS: s.now(), TTLMS: s.ttl.Milliseconds(),
		Clients: []Client{}, Marks: []trace.Mark{}, Account: s.account.trace(), Damage: []string{},
		Seq: len(s.events), EndsMS: s.since(s.endsLocked()),
	}
	if s.nodes != nil {
		st.Lock = nodesLock
	}
	for _, name := range actors {
		st.Clients = append(st.Clients, s.clients[name].stateLocked())
	}
	if s.mode != ModeNone {
		for _, short := range []string{Coupon, Stock} {
			if m, ok := s.marks[short]; ok && (short == Coupon || s.touched) {
				st.Marks = append(st.Marks, m)
			}
		}
	}
	if s.touched {
		st.Stock = strconv.FormatInt(s.account.stock, 10)
	}
	st.Damage = append(st.Damage, s.account.damage...)
	return st
}

// short returns coupon or stock for the name of a resource of the session.
func (s *session) short(resource string) (string, bool) {
	name, ok := strings.CutPrefix(resource, s.prefix)
	return name, ok && (name == Coupon || name == Stock)
}

// gatewayHandler serves what comes for the session's gateway, from its clients and from elsewhere.
func (s *session) gatewayHandler(w http.ResponseWriter, r *http.Request) {
	inside, _ := r.Context().Value(fromInside{}).(bool)
	r.Header.Set("Authorization", "Bearer "+s.stage.secret)
	s.stage.handler.ServeHTTP(w, r)
	if !inside && r.Method != http.MethodGet && r.Method != http.MethodHead {
		s.strangerWrote(r.Context())
	}
}
