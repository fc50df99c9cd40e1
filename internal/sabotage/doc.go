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
// The patched copies are given to go test by -overlay, so nothing is written to the tree, and
// product code has no switches. First the tests must pass without a patch. A patch is caught if a test of one of its lines failed; one whose tests
// pass, that does not compile, or that no longer applies fails the command.
package main
