package client

import (
	"math/rand/v2"

	"github.com/fencegate/fencegate/internal/torture/workload"
)

// Visits is to which of so many groups a seat goes in its first turns.
func Visits(seed uint64, groups, turns int) (names []string) {
	s := &sitting{seat: &workload.Seat{Rand: rand.New(rand.NewPCG(seed, 0))}}
	for i := range groups {
		s.groups = append(s.groups, []string{string(rune('a' + i))})
	}
	for range turns {
		names = append(names, s.next()[0])
	}
	return names
}
