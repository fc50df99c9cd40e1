package locking

// Woken returns how often the scheduler was woken.
func (l *Locker) Woken() int {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	return l.s.woken
}

// Idle reports whether the scheduler has nothing to do, and no timer set.
func (l *Locker) Idle() bool {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	return len(l.s.held) == 0 && l.s.fires == never
}
