//go:build race

package sim_test

// defaultSeeds is smaller with the race detector, which is ten times slower.
const defaultSeeds = 1500
