package memlock

// Forget forgets the hold and the number of one resource, as a restart of the process would: the lock
// is free, and its numbers begin at 1 again. Who waits for it stays in line. It is for tests and for
// the lab, which show how the stores heal it.
func (b *Backend) Forget(resource string) {
	s := b.shard(resource)
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.locks[resource]
	if l == nil {
		return
	}
	delete(s.labels, resource)
	*l = lock{}
	n := s.lines[resource]
	if n == nil {
		delete(s.locks, resource)
		return
	}
	n.given = false
	s.serve(resource, b.now())
}
