// Package torture runs clients against a lock and a store, injects faults for real, and has the
// history of what happened checked: that no acknowledged write was lost and no stale one accepted.
//
// # Parts
//
// Data flows one way, and each part is a package below this one:
//
//	workload   what a client does with a lock and a store, turn by turn
//	client     a process with many seats, each of which takes turns; it writes down every call
//	           before it is sent and every answer (history), to its standard output
//	rig        private servers, gateways, client processes, and the links between them
//	link       a TCP address that delays, drops, resets, holds and repeats what passes
//	fault      one kind of fault each: inject, heal
//	history    what was written down, by clients and by the nemesis
//	check      pure functions from a history to violations and figures
//	report     the HTML page, the record of all runs, the table of reliability.md
//
// A run sets up a rig, starts the clients, lets the nemesis inject the chosen
// faults one after another by a seeded random generator, waits after each until everybody is served
// again, stops the clients, reads what the stores hold, and checks.
//
// # Verdicts
//
// Held: nothing was violated, and there was something to hold: an operation was refused, a lock
// taken over, or an outcome left unknown. Void: nothing like that happened, or the machine could not
// make the fault. Violated: a checker has found something; the run stops at the first.
package torture
