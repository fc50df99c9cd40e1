// Command brokenlocks is the museum of broken locks: each well-known lock and its well-known failure,
// run for real, first on a store that takes every write and then on one that checks fencing tokens.
//
//	go run ./examples/brokenlocks
package main

func main() { panic("not written yet") }
