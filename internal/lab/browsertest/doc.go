// Package browsertest plays the lab's page in a real Chromium: every chapter to its end by keyboard
// alone, the page at several sizes and in both themes, with axe-core, with hostile input and with no
// network but the server's own address; and so the page of examples/couponapi, served by that program
// itself. It is a module of its own, so that what drives the browser is needed by nobody else.
//
//	cd internal/lab/browsertest && go test ./...
//
// It needs Chromium or Chrome; a missing one is a failure. LAB_SCREENSHOTS names a folder in which
// the screenshots are kept for looking at them.
package browsertest
