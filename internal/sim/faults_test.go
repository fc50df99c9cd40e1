package sim_test

import (
	"fmt"
	"time"
)

// faults puts what will go wrong into the network's queue. Everything has healed by p.heal.
func (w *world) faults() {
	r := &w.roll
	for range w.p.crashes {
		from := r.upTo(w.p.heal - 20)
		until := min(from+r.upTo(w.p.outage), w.p.heal)
		if r.chance(0.5) {
			w.crashLock(from, until, w.p.forgets && r.chance(0.7))
		} else {
			w.crashData(from, until, w.p.older && r.chance(0.7))
		}
	}
	if w.p.older {
		for at := r.upTo(15); at < w.p.heal; at += r.in(10, 40) {
			w.do(at, func() { w.data.copies = append(w.data.copies, w.data.clone()) })
		}
	}
	for range w.p.cuts {
		l := w.all[r.upTo(len(w.all))-1].links[r.upTo(2)-1]
		way, from := r.upTo(2)-1, r.upTo(w.p.heal-20)
		until := min(from+r.in(5, 50), w.p.heal)
		w.do(from, func() {
			w.log.add(from, "what goes from %s to %s (way %d) is lost until %d", l.from.name, l.to.name, way, until)
			w.net.mu.Lock()
			l.cut[way] = max(l.cut[way], until)
			w.net.mu.Unlock()
		})
	}
	if w.p.jumps && !w.p.line {
		by := time.Duration(r.in(-50, 50)) * cell
		w.do(r.upTo(w.p.heal-20), func() {
			w.log.add(w.net.now(), "the lock store's clock jumps by %v", by)
			w.lock.clock.jump += by
			w.h.jumped()
		})
	}
	w.do(w.p.heal, func() { w.log.add(w.net.now(), "all faults have ended") })
}

// do lets something happen at the beginning of a cell, before what arrives then.
func (w *world) do(at int, what func()) {
	w.net.at(at, 0, nil, func() bool { what(); return false })
}

func (w *world) crashLock(from, until int, forgets bool) {
	w.crash(&w.lock.host, from, until, func() string {
		if !forgets {
			return "with all it knew"
		}
		w.lock.fresh()
		w.h.forgot()
		return "with nothing"
	})
}

func (w *world) crashData(from, until int, older bool) {
	choice := w.roll.next()
	w.crash(&w.data.host, from, until, func() string {
		with, what := w.data.dataset, "with all it knew"
		if n := len(w.data.copies); older && n > 0 {
			k := int(choice % uint64(n))
			with, what = w.data.copies[k].clone(), fmt.Sprintf("with copy %d of %d", k+1, n)
			w.data.copies = w.data.copies[:k+1] // the later ones are of a time that never was
		}
		w.data.restart(with)
		return what
	})
}

func (w *world) crash(h *host, from, until int, restart func() string) {
	w.do(from, func() {
		h.down = true
		h.runs++
		w.log.add(from, "%s store crashes", h.name)
	})
	w.do(until, func() {
		if h.down {
			h.down = false
			w.log.add(until, "%s store is back %s", h.name, restart())
		}
	})
}

// stop lets a process stand still for some cells: what it sends, and what comes for it, waits.
func (w *world) stop(p *process, cells int) {
	w.net.mu.Lock()
	defer w.net.mu.Unlock()
	p.resumes = max(p.resumes, min(w.net.now()+cells, w.p.heal))
}
