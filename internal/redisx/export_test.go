package redisx

import "time"

// SetPatience sets how long a round trip counts before it is taken to hang.
func (s *Sender) SetPatience(d time.Duration) { s.patience = d }

// Alone reports whether calls never share a pipeline.
func (s *Sender) Alone() bool { return s.alone }

// Waiting returns how many calls have not been sent.
func (s *Sender) Waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queue)
}

// Trips returns how many round trips are under way.
func (s *Sender) Trips() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.trips
}

// Next begins the next round trip, as if one had hung.
func (s *Sender) Next() {
	s.mu.Lock()
	s.trips++
	s.mu.Unlock()
	s.next()
}
