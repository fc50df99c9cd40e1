package redisx

// Waiting returns how many calls have not been sent.
func (s *Sender) Waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, it := range s.queue {
		if it.ctx != nil || !it.sent {
			n++
		}
	}
	return n
}

// Trips returns how many round trips are under way.
func (s *Sender) Trips() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.trips
}
