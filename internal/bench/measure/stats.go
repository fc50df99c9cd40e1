// Package measure times and counts. What it returns are ratios and rates of things that ran
// side by side: absolute figures of a shared machine swing two- to fourfold.
package measure

import (
	"math"
	"slices"
)

// Quantile returns the q-quantile of samples (0.5 is the median), the nearest below; NaN if
// there are none.
func Quantile[T ~int64 | ~float64](samples []T, q float64) float64 {
	if len(samples) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(samples))
	return float64(sorted[int(q*float64(len(sorted)-1))])
}

// Median returns the middle one, or the mean of the middle two; NaN if there are none.
func Median(samples []float64) float64 {
	if len(samples) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(samples))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// Jain returns Jain's index of fairness of shares: 1 if all are equal, 1/n if one has
// everything.
func Jain(shares []float64) float64 {
	var sum, squares float64
	for _, x := range shares {
		sum += x
		squares += x * x
	}
	return sum * sum / (float64(len(shares)) * squares)
}

// Ratios divides run by run.
func Ratios(over, under []float64) []float64 {
	ratios := make([]float64, min(len(over), len(under)))
	for i := range ratios {
		ratios[i] = over[i] / under[i]
	}
	return ratios
}
