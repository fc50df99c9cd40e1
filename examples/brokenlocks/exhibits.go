package main

// Exhibits returns the museum, in the order in which it is walked through.
func Exhibits() []Exhibit {
	return []Exhibit{
		nothingAtAll(),
		setnxWithoutExpiry(),
		setnxThenExpire(),
		setnxTimestamp(),
		getsetTakeover(),
		delWithoutOwner(),
		renewWithoutOwner(),
		runawayWatchdog(),
		sharedLockObject(),
		misplacedBracket(),
		pausedHolder(),
		watchdogStopped(),
		replicaPromoted(),
		redlockRestarted(),
		redlockSplitVote(),
		redlockDeadNode(),
		redlockClockJump(),
		databaseConnectionDropped(),
		databaseEarlyCommit(),
		optimisticStarves(),
		negativeStock(),
	}
}
