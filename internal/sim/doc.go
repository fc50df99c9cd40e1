// Package sim runs the product's own code in a simulated world: Lockers and issuers over lock
// stores and data stores that crash, behind a network that delays, reorders, doubles and loses
// messages; and lanes over a disk that fails. Time is virtual, so that a run of half a minute
// takes a few milliseconds. Everything here is tests: see the files beside this one.
//
//	go test ./internal/sim -seeds 100000            as many runs, over all simulations
//	go test ./internal/sim -minutes 60              for so long
//	go test ./internal/sim -run TestLocker -seed 17 -v    one run again, with its event log
//
// # Guarantees
//
//   - A run is decided by its seed: the same seed gives the same log. Everything in the
//     simulated world happens at the ticks of one clock, a cell apart, one thing after the other
//     in an order that the seed gives; the jitter that the product adds to its own timers
//     stays within a cell and changes nothing.
//   - A violated rule prints the seed, the line that repeats it, and the event log.
//   - The rules themselves are tested: each of a list of planted bugs is found (TestPlanted,
//     TestPlantedInLanes).
//
// # What is not guaranteed
//
// The stores here are models, small and on one processor: what a real Redis or Postgres does is
// shown by the suites of the backends and by the fault machine, not here. The lock store that keeps a line
// is memlock itself; the data store judges commits by storage.Evaluate and raises by
// fencing.Mark, the product's own rule.
//
// # Clocks
//
// The clients' clocks are the virtual one. The lock store's runs faster or slower, within
// what the leases allow for; in some runs it jumps, and leases may then overlap.
package sim
