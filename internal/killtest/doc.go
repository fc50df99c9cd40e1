// Package killtest has no code of its own: its tests kill and stop the processes of holders
// and waiters, and the servers under them, at random, and look whether anybody hangs, any
// number is granted twice, or any acknowledged write is lost.
package killtest
