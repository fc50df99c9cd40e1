// Package model explores the rules that fencegate rests on, every interleaving of every step
// within small bounds, breadth first: where a rule is too weak, the shortest schedule that breaks
// it is found, and printed in words.
//
// Two models: the fence of a data store ([StorageRules]), with three holders who all believe that they
// hold the lock, and the granting of numbers by three independent Redis masters ([RedlockRules]). Variants
// lists what is explored and what must come of it: the rules as they are hold, and each
// weaker form is broken in exactly the way that is named. docs/models.md is written from the same
// table.
//
// # Guarantees
//
// A variant that holds was explored completely: every reachable state, the number of which is
// part of the table. A counterexample is a shortest one.
//
// # What is not guaranteed
//
// The models are small: three holders of one resource, one or two writes; three nodes, two or
// three attempts, a loss of data or two. They are of the rules and not of the code: that the code
// follows them is shown by the suites, by locking/redlock, which plays the counterexamples to real
// nodes, and by package sim.
package model
