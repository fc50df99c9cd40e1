// Command sabotage breaks the rule on purpose and asks whether a test notices.
//
// Each file below a group's folder is a patch, a few lines of product code made wrong, with the
// tests that must fail under it:
//
//	# what is broken, in a sentence
//	# test: ./storage/memstore -run 'TestConformance/retire'
//	--- a/fencing/mark.go
//	+++ b/fencing/mark.go
//	...
//
// Instead of tests, or beside them, a patch can name runs of the fault machine, which must find a
// violation within a minute; one that does not is made once more, and if it does then, that is said:
//
//	# run: --lock redis --store postgres --faults client-pause
//
// and instead of a diff the patch whose diff it has ("# like: storage/key-share").
//
// The patched copies are given to go test and go build by -overlay, so nothing is written to the tree, and
// product code has no switches. First the tests must pass without a patch. A patch is caught if a test of one of its lines failed; one whose tests
// pass, that does not compile, or that no longer applies fails the command.
package main
