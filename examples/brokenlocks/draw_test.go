package main

import (
	"fmt"
	"strings"
	"testing"
)

// draw is a telling as text.
func draw(t *testing.T, s Seen) string {
	t.Helper()
	var out strings.Builder
	if err := s.Diagram.Text(&out, false); err != nil {
		t.Error(err)
	}
	fmt.Fprintf(&out, "accepted %d, refused %d, counter %d of %d, damage: %s\n", s.Accepted, s.Refused, s.CounterIs, s.CounterOK, s.Damage)
	return out.String()
}
