package client_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/internal/torture/client"
)

// TestEveryGroupIsVisitedSoon: a seat goes to all groups before it goes to one again, in an order that its seed decides.
func TestEveryGroupIsVisitedSoon(t *testing.T) {
	t.Parallel()
	const groups, rounds = 12, 3
	orders := map[string]bool{}
	for seed := range uint64(5) {
		visits := client.Visits(seed, groups, groups*rounds)
		for round := range slices.Chunk(visits, groups) {
			orders[strings.Join(round, "")] = true
			if slices.Sort(round); len(slices.Compact(round)) != groups {
				t.Errorf("seed %d: a round is %q, want every group once", seed, round)
			}
		}
		if again := client.Visits(seed, groups, groups); !slices.Equal(again, client.Visits(seed, groups, groups)) {
			t.Errorf("seed %d: another order the second time", seed)
		}
	}
	if len(orders) < 10 {
		t.Errorf("got %d orders in 15 rounds, want nearly as many", len(orders))
	}
}
