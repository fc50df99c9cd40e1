//go:build unix

package killtest_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fencegate/fencegate/internal/pgtx/pgtxtest"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/storage"
)

func TestMain(m *testing.M) {
	if os.Getenv(lockEnv) != "" {
		if err := work(context.Background()); err != nil {
			fmt.Println("0 fatal", err)
		}
		os.Exit(1)
	}
	testenv.Main(m)
}

const (
	workers = 4
	seats   = 2 // goroutines of each: they hand the lock over among themselves, too
	// healed is how long after the last fault everybody must have been granted the lock: a
	// dead holder's TTL, what dead waiters cost at most, everybody's turn, and the work of
	// a busy machine.
	healed = ttl + 10*time.Second
	slack  = 10 * time.Second
)

// TestKillAnything kills -9 the holder, a waiter, the one that has waited longest (the head of
// the line), the lock's server and the store's, and stops processes for a while; then it
// lets everything heal and looks whether everybody gets the lock again. So for a minute.
func TestKillAnything(t *testing.T) {
	t.Parallel()
	length := time.Minute
	if testing.Short() {
		length = 10 * time.Second
	}
	for _, lock := range []string{"redis", "postgres"} {
		t.Run(lock, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, lock)
			for end := time.Now().Add(length); time.Now().Before(end) && !t.Failed(); {
				for range 2 + rand.N(6) {
					s.fault()
					time.Sleep(rand.N(400 * time.Millisecond))
				}
				s.heal()
			}
			s.judge()
		})
	}
}

// scene is the servers, the workers, and what they have said.
type scene struct {
	*testing.T
	lock  string
	redis *testenv.Redis
	pg    *testenv.Postgres
	url   string // of the database
	env   []string

	readers sync.WaitGroup // one a process, until its last line is read

	mu      sync.Mutex // guards what follows
	all     []*worker
	numbers map[int64]int // by number, the process that it was granted to
	applied map[int64]int // by value, the process whose write was acknowledged
	begun   int           // writes that were begun and not answered, or whose outcome is unknown
	faults  map[string]int
	longest time.Duration // until everybody was granted the lock again
	log     []string
}

type worker struct {
	cmd     *exec.Cmd
	stopped bool
	seats   [seats]seat
}

// seat is what a worker's goroutine has said.
type seat struct {
	state  string    // the last line's first word
	since  time.Time // of the state
	grants int
}

func newScene(t *testing.T, lock string) *scene {
	s := &scene{T: t, lock: lock, numbers: map[int64]int{}, applied: map[int64]int{}, faults: map[string]int{}}
	// A lock store in Redis keeps nothing across a kill here; a store must.
	s.redis = testenv.StartRedis(t, &testenv.RedisOptions{AppendOnly: lock != "redis"})
	s.pg = testenv.StartPostgres(t, &testenv.PostgresOptions{NoSync: true})
	s.url = s.pg.NewDatabaseFrom(t, "fencegate", pgtxtest.Migrate)
	s.env = append(os.Environ(), lockEnv+"="+lock, redisEnv+"="+s.redis.URL(), postgresEnv+"="+s.url)
	for range workers {
		s.spawn()
	}
	t.Cleanup(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, w := range s.all {
			_ = w.cmd.Process.Kill()
		}
	})
	return s
}

func (s *scene) spawn() {
	self, err := os.Executable()
	if err != nil {
		s.Fatal(err)
	}
	w := &worker{cmd: exec.Command(self)}
	w.cmd.Env = s.env
	out, err := w.cmd.StdoutPipe()
	if err == nil {
		err = w.cmd.Start()
	}
	if err != nil {
		s.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, w)
	s.readers.Go(func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			s.said(w, lines.Text())
		}
		_ = w.cmd.Wait()
	})
}

// said takes in a worker's line.
func (s *scene) said(w *worker, line string) {
	pid := w.cmd.Process.Pid
	number, rest, _ := strings.Cut(line, " ")
	k, _ := strconv.Atoi(number)
	word, rest, _ := strings.Cut(rest, " ")
	n, _ := strconv.ParseInt(rest, 10, 64)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, fmt.Sprint(time.Now().Format("05.000 "), pid, " ", line))
	at := &w.seats[k]
	at.state, at.since = word, time.Now()
	switch word {
	case "granted":
		at.grants++
		if other, twice := s.numbers[n]; twice {
			s.Errorf("number %d was granted to process %d and to %d", n, other, pid)
		}
		s.numbers[n] = pid
	case "writing":
		s.begun++
	case "applied":
		s.begun--
		if other, twice := s.applied[n]; twice {
			s.Errorf("the value %d was written by process %d and by %d, both acknowledged", n, other, pid)
		}
		s.applied[n] = pid
	case "refused", "failed":
		s.begun--
	case "fatal":
		s.Errorf("process %d: %s", pid, line)
	}
}

// pick returns a living worker: with a state the one with the goroutine that has been in it
// for longest, if there is any.
func (s *scene) pick(state string) *worker {
	s.mu.Lock()
	defer s.mu.Unlock()
	picked := s.all[rand.N(len(s.all))]
	var since time.Time
	for _, w := range s.all {
		for _, at := range w.seats {
			if at.state == state && (since.IsZero() || at.since.Before(since)) {
				picked, since = w, at.since
			}
		}
	}
	return picked
}

func (s *scene) kill(w *worker) {
	_ = w.cmd.Process.Kill()
	s.mu.Lock()
	s.all = slices.DeleteFunc(s.all, func(other *worker) bool { return other == w })
	s.mu.Unlock()
	s.spawn()
}

// fault does one thing to somebody.
func (s *scene) fault() {
	kinds := []struct {
		name string
		do   func()
	}{
		{"kill the holder", func() { s.kill(s.pick("writing")) }},
		{"kill the head", func() { s.kill(s.pick("wait")) }},
		{"kill somebody", func() { s.kill(s.pick("")) }},
		{"stop the holder", func() { s.stop(s.pick("writing")) }},
		{"stop somebody", func() { s.stop(s.pick("")) }},
		{"resume", s.resume},
		{"kill Redis", func() { s.redis.Kill(); time.Sleep(rand.N(300 * time.Millisecond)); s.redis.Restart() }},
		{"kill Postgres", func() { s.pg.Kill(); time.Sleep(rand.N(300 * time.Millisecond)); s.pg.Restart() }},
		{"pause Redis", func() { s.redis.Pause(); time.Sleep(rand.N(time.Second)); s.redis.Resume() }},
	}
	k := kinds[rand.N(len(kinds))]
	s.mu.Lock()
	s.faults[k.name]++
	s.log = append(s.log, time.Now().Format("05.000 ")+"*** "+k.name)
	s.mu.Unlock()
	k.do()
}

// stop lets a worker stand still until the next resume.
func (s *scene) stop(w *worker) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = w.cmd.Process.Signal(syscall.SIGSTOP)
	w.stopped = true
}

func (s *scene) resume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.all {
		if w.stopped {
			_ = w.cmd.Process.Signal(syscall.SIGCONT)
			w.stopped = false
		}
	}
}

// heal lets everything run and waits until every worker has been granted the lock again.
func (s *scene) heal() {
	s.Helper()
	s.resume()
	start := time.Now()
	s.mu.Lock()
	s.log = append(s.log, start.Format("05.000 ")+"*** heal")
	before := map[*seat]int{}
	for _, w := range s.all {
		for k := range w.seats {
			before[&w.seats[k]] = w.seats[k].grants
		}
	}
	s.mu.Unlock()
	for {
		missing := 0
		s.mu.Lock()
		for at, n := range before {
			if at.grants == n {
				missing++
			}
		}
		s.mu.Unlock()
		if missing == 0 {
			s.longest = max(s.longest, time.Since(start))
			return
		}
		if took := time.Since(start); took > healed+slack {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.Fatalf("%v after the last fault %d of %d were not granted the lock again; the last lines:\n%s",
				took, missing, len(before), strings.Join(s.log[max(0, len(s.log)-300):], "\n"))
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// judge compares the store's record with what was acknowledged.
func (s *scene) judge() {
	s.Helper()
	s.mu.Lock()
	for _, w := range s.all {
		_ = w.cmd.Process.Kill()
	}
	s.mu.Unlock()
	s.readers.Wait()
	final := s.final()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Logf("%d grants, %d acknowledged writes, %d unknown, the record says %d; all served again within %v; faults: %v", len(s.numbers), len(s.applied), s.begun, final, s.longest.Round(time.Millisecond), s.faults)
	if len(s.applied) < 20 {
		s.Errorf("only %d writes were acknowledged", len(s.applied))
	}
	if acknowledged := int64(len(s.applied)); final < acknowledged || final > acknowledged+int64(s.begun) {
		s.Errorf("the record says %d, want %d, and at most %d more", final, acknowledged, s.begun)
	}
	for n := range s.applied {
		if n > final {
			s.Errorf("the acknowledged value %d is lost: the record says %d", n, final)
		}
	}
}

// final reads the record after everything.
func (s *scene) final() int64 {
	s.Helper()
	client, pool, err := connect(s.Context(), s.redis.URL(), s.url)
	if err != nil {
		s.Fatal(err)
	}
	defer client.Close()
	defer pool.Close()
	_, store, err := open(s.Context(), s.lock, client, pool)
	if err != nil {
		s.Fatal(err)
	}
	rec, err := store.Get(s.Context(), resource, record)
	if err != nil {
		s.Fatal(err)
	}
	n, ok := storage.ParseCounter(rec.Value)
	if !ok {
		s.Fatalf("the record is %q", rec.Value)
	}
	return n
}
