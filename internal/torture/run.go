package torture

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/fencegate/fencegate/internal/torture/check"
	"github.com/fencegate/fencegate/internal/torture/fault"
	"github.com/fencegate/fencegate/internal/torture/history"
	"github.com/fencegate/fencegate/internal/torture/rig"
	"github.com/fencegate/fencegate/internal/torture/workload"
	"github.com/fencegate/fencegate/locking"
)

// errCaught ends a run at its first violation.
var errCaught = errors.New("a violation was found")

// ending is how long a run may take to stop its clients, read what is left, and close.
const ending = 90 * time.Second

// seedTTL is that of the locks under which the groups are seeded.
const seedTTL = 30 * time.Second

// run is a run under way.
type run struct {
	Config
	faults    []fault.Fault
	workloads []workload.Workload
	prefix    string
	rec       *recorder
	rig       *rig.Rig
	initial   []history.Cell
	crashes   error // of clients that ended on their own

	mu    sync.Mutex // guards what follows
	phase string
}

func (r *run) doing(phase string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.phase = phase
}

// Run makes one run. progress, which may be nil, is called a few times a second, by one goroutine. The error says that
// the run could not be made at all, such as a missing server or a Config that is wrong (nothing was
// started then); a void run is no error. When ctx ends the run is cut short, healed, checked and reported.
func Run(ctx context.Context, c Config, progress func(Progress)) (*Outcome, error) {
	r := &run{Config: c, prefix: fmt.Sprintf("torture-%08x", rand.Uint32())}
	if err := r.settle(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r.rec = newRecorder(func() { cancel(errCaught) })
	defer r.watch(progress)()

	out := &Outcome{History: &history.History{Began: history.Now(), Direct: r.Rig.Gateways == 0}}
	started := time.Now()
	voidness, err := r.work(ctx, out.History)
	if err != nil {
		return nil, err
	}
	out.History.Ended = history.Now()
	out.History.Initial = r.initial
	r.rec.fill(out.History)
	r.doing("checking")
	out.Result = check.Check(out.History, nil)
	if len(out.Result.Violations) == 0 {
		out.Result.Violations = r.rec.violations()
	}
	if r.crashes != nil {
		out.Result.Violations = append(out.Result.Violations, check.Violation{Invariant: "INV13", Check: "client", Text: r.crashes.Error()})
	}
	out.Run = r.verdict(started, out, voidness)
	return out, nil
}

// work sets up the rig, lets clients and nemesis work, and reads what is left. The first error says why the run is void:
// what the clients have written down is judged all the same. The second says that they never began.
func (r *run) work(ctx context.Context, h *history.History) (void, err error) {
	r.doing("starting servers")
	r.rig, err = rig.Build(ctx, r.Rig, r.rec.line)
	if fault.IsVoid(err) {
		return err, nil
	}
	if err != nil {
		return nil, err
	}
	began := false
	defer func() {
		r.doing("closing")
		switch closeErr := r.rig.Close(); {
		case closeErr == nil:
		case began:
			void = errors.Join(void, fmt.Errorf("close: %w", closeErr))
		default:
			err = errors.Join(err, closeErr)
		}
	}()
	r.doing("seeding")
	if err := r.seed(ctx); err != nil {
		return nil, fmt.Errorf("seed: %w", err)
	}
	r.doing("starting clients")
	if err := r.rig.StartClients(ctx); err != nil {
		return nil, err
	}
	began = true
	n := &nemesis{
		rig: r.rig, rec: r.rec, rand: rand.New(rand.NewPCG(r.Seed, 1)), faults: r.faults, groups: r.groups(), doing: r.doing,
	}
	r.doing("warming up")
	void = n.run(ctx, time.Now().Add(r.Duration))
	h.Faults = n.notes
	if ctx.Err() != nil && !errors.Is(context.Cause(ctx), errCaught) {
		void = errors.New("interrupted")
	}
	clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), ending)
	defer cancel()
	return errors.Join(void, r.end(clean, n, h)), nil
}

// end stops the clients and reads what is left. The error says what could not be found out.
func (r *run) end(ctx context.Context, n *nemesis, h *history.History) error {
	r.doing("stopping clients")
	r.crashes = n.crashed()
	stopped := r.rig.StopClients(ctx)
	r.crashes = cmp.Or(r.crashes, n.crashed())
	r.doing("reading what is left")
	final, err := r.final(ctx)
	if err != nil {
		return errors.Join(stopped, fmt.Errorf("read what is left: %w", err))
	}
	h.Final, h.FinalRead = final, true
	if stopped != nil {
		return stopped
	}
	if h.Leaks, err = r.rig.Leaks(ctx); err != nil {
		return fmt.Errorf("look for leaks: %w", err)
	}
	return nil
}

// groups returns the names of all groups.
func (r *run) groups() (list []string) {
	for _, w := range r.workloads {
		for i := range r.Rig.Client.Groups {
			list = append(list, w.Resources(r.prefix, i)[0])
		}
	}
	return list
}

// seed writes what the groups begin with.
func (r *run) seed(ctx context.Context) error {
	var mu sync.Mutex
	return r.each(ctx, func(ctx context.Context, a workload.Access, w workload.Workload, resources []string) error {
		cells, err := w.Seed(ctx, a, resources)
		mu.Lock()
		defer mu.Unlock()
		r.initial = append(r.initial, cells...)
		return err
	})
}

// final reads what the stores hold.
func (r *run) final(ctx context.Context) (all []history.Cell, err error) {
	var mu sync.Mutex
	err = r.each(ctx, func(ctx context.Context, a workload.Access, w workload.Workload, resources []string) error {
		cells, err := w.Final(ctx, a, resources)
		mu.Lock()
		defer mu.Unlock()
		all = append(all, cells...)
		return err
	})
	return all, err
}

// each does something for every group, some at once.
func (r *run) each(ctx context.Context, do func(context.Context, workload.Access, workload.Workload, []string) error) error {
	const atOnce = 4 // a row lock takes a connection, and the parent has few
	access, err := r.rig.Access(ctx)
	if err != nil {
		return err
	}
	// Nobody is to take over from the one who seeds, however busy the machine is.
	if access.Locker, err = locking.New(access.Issuer, &locking.Options{TTL: seedTTL, Wait: ending}); err != nil {
		return err
	}
	places := make(chan struct{}, atOnce)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var first error
	for _, w := range r.workloads {
		for i := range r.Rig.Client.Groups {
			places <- struct{}{}
			wg.Go(func() {
				defer func() { <-places }()
				if err := do(ctx, access, w, w.Resources(r.prefix, i)); err != nil {
					mu.Lock()
					defer mu.Unlock()
					if first == nil {
						first = fmt.Errorf("%s %d: %w", w.Name(), i, err)
					}
				}
			})
		}
	}
	wg.Wait()
	return first
}

// watch tells of the progress until the function that it returns is called.
func (r *run) watch(progress func(Progress)) (stop func()) {
	if progress == nil {
		return func() {}
	}
	const often = 200 * time.Millisecond
	began := time.Now()
	done := make(chan struct{})
	var watcher sync.WaitGroup
	watcher.Go(func() {
		t := time.NewTicker(often)
		defer t.Stop()
		for {
			select {
			case <-done:
				return
			case <-t.C:
			}
			p := Progress{Elapsed: time.Since(began)}
			r.mu.Lock()
			p.Doing = r.phase
			r.mu.Unlock()
			r.rec.progress(&p)
			progress(p)
		}
	})
	return func() {
		close(done)
		watcher.Wait()
	}
}
