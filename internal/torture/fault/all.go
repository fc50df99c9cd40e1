package fault

import "slices"

// All returns every kind of fault, in the order of the table.
func All() []Fault {
	return slices.Concat(
		clientFaults(), gatewayFaults(),
		redisFaults(), postgresFaults(), diskFaults(), redlockFaults(),
		loadFaults(), operatorFaults(),
		network(), clocks(),
	)
}

// Named returns the fault of a name.
func Named(name string) (Fault, bool) {
	for _, f := range All() {
		if f.Name == name {
			return f, true
		}
	}
	return Fault{}, false
}
