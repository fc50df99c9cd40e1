package model

// Variant is one set of rules, and what must come of exploring it.
type Variant struct {
	Name   string
	Change string // what is different from the rules as they are
	Lesson string // what it teaches
	Broken string // the rule that it breaks; empty: it holds
	States int    // how many there are, or were seen until the break was found
	Large  bool   // explored with -large only: it takes minutes, or gigabytes
	run    func() (states int, broken string, steps []Step)
}

// Explore explores the variant.
func (v Variant) Explore() (states int, broken string, steps []Step) { return v.run() }

// limit is more states than any variant has.
const limit = 100_000_000

func of[S comparable](m Model[S]) func() (int, string, []Step) {
	return func() (int, string, []Step) {
		f := Explore(m, limit)
		if f.Limited {
			return f.States, "not explored completely", nil
		}
		return f.States, f.Broken, f.Steps
	}
}

// StorageVariants is what is explored of the data store's fence.
func StorageVariants() []Variant {
	return []Variant{
		{
			Name: "F0", Change: "The fence is checked on writes only.",
			Lesson: "Perfect tokens do not help a holder who reads before its token is known to the store: the older holder's write is accepted in between, and overwritten. So a token is raised at the grant, before the first read (rule 2).",
			Broken: Lost, States: 306, run: of(StorageRules{}),
		},
		{
			Name: "F1", Change: "The token is raised at the grant; numbers are unique.",
			Lesson: "Holds: with a lock that never gives a number twice, numbers are enough.",
			States: 774, run: of(StorageRules{Raised: true}),
		},
		{
			Name: "F2", Change: "Raised at the grant; the lock may give a number twice, and the store compares numbers only.",
			Lesson: "A lock service that forgets its counter gives a number again, and two holders have equal rights. So a token has a grant id, and a number belongs to one grant.",
			Broken: Lost, States: 2217, run: of(StorageRules{Raised: true, AnyNum: true}),
		},
		{
			Name: "F3", Change: "The rule: raised at the grant, the grant id compared beside the number; any numbers, in any order.",
			Lesson: "Holds, whatever the lock does: the store decides.",
			States: 2154, run: of(StorageRules{Raised: true, Grants: true, AnyNum: true}),
		},
		{
			Name: "F4", Change: "Check and write are two steps.",
			Lesson: "Between a good check and its write a newer holder raises and reads. So both are one atomic step, under a lock on the mark (rule 1).",
			Broken: Lost, States: 933, run: of(StorageRules{Raised: true, Grants: true, Split: true}),
		},
		{
			Name: "F5", Change: "A task writes two values, one commit each.",
			Lesson: "Each write is fenced, and the task is not: the next holder sees half of it. So the writes of one task are one commit (rule 8).",
			Broken: Torn, States: 317, run: of(StorageRules{Raised: true, Grants: true, Writes: TwoCommits}),
		},
		{
			Name: "F6", Change: "A task writes two values in one commit; any numbers.",
			Lesson: "Holds.",
			States: 2154, run: of(StorageRules{Raised: true, Grants: true, AnyNum: true, Writes: OneCommit}),
		},
		{
			Name: "F7", Change: "A reply may be lost, and the write is sent again without a key.",
			Lesson: "A token that is still the mark makes a retry as good as the first write. So a write that may be sent again has an idempotency key.",
			Broken: Double, States: 195, run: of(StorageRules{Raised: true, Grants: true, Resend: Blindly}),
		},
		{
			Name: "F8", Change: "A reply may be lost, the write has a key, and the fence is judged before the key's record.",
			Lesson: "A newer holder came in between: the retry is refused, and its sender is told that nothing happened, though it did. So the record is looked up first (rule 9).",
			Broken: Ghost, States: 957, run: of(StorageRules{Raised: true, Grants: true, Resend: FenceFirst}),
		},
		{
			Name: "F9", Change: "The rule: the record of the key is looked up before the fence; any numbers.",
			Lesson: "Holds.",
			States: 3759, run: of(StorageRules{Raised: true, Grants: true, AnyNum: true, Resend: RecordFirst}),
		},
	}
}

// Redlock is what locking/redlock does, in the bounds in which the smaller variants are explored.
func Redlock(change func(*RedlockRules)) RedlockRules {
	r := RedlockRules{Attempts: 2, Highest: 1, Confirm: true, Check: true, OnlyS: true, Exact: true}
	if change != nil {
		change(&r)
	}
	return r
}

func redlock(change func(*RedlockRules)) func() (int, string, []Step) {
	return of(Redlock(change))
}

// RedlockVariants is what is explored of the numbers that three masters give.
func RedlockVariants() []Variant {
	return []Variant{
		{
			Name: "V0", Change: "The number is the maximum of a majority's counters; there is no second phase.",
			Lesson: "Two majorities share a node, not its counter's history: both may have the same maximum. So the number is written back before it is given out.",
			Broken: Twice, States: 3125, run: redlock(func(r *RedlockRules) { r.Confirm = false }),
		},
		{
			Name: "V1", Change: "The number is written back without a look at the lock.",
			Lesson: "A write-back that comes after its lock has ended says nothing of who was granted in between. So a node confirms only while it holds the very lock.",
			Broken: Twice, States: 68060, run: redlock(func(r *RedlockRules) { r.Check = false }),
		},
		{
			Name: "V2", Change: "The number is written back wherever the lock is held, on nodes that granted late as well.",
			Lesson: "A late grant's counter went into no maximum; to count its confirm joins two majorities that never met. So only the nodes whose counters made the number confirm it.",
			Broken: Twice, States: 56555, run: redlock(func(r *RedlockRules) { r.OnlyS = false }),
		},
		{
			Name: "V3", Change: "The protocol as it is: only the nodes of the majority confirm, and only the lock of that very granting.",
			Lesson: "Holds.", States: 286170, run: redlock(nil),
		},
		{
			Name: "V3h", Change: "Late grants count and the lock is not looked at, but a node confirms no number below its counter.",
			Lesson: "To compare counters does not replace the look at the lock.",
			Broken: Twice, States: 100158, run: redlock(func(r *RedlockRules) { r.Check, r.OnlyS, r.Lower = false, false, true }),
		},
		{
			Name: "V3d", Change: "The lock's value names the attempt, not the granting, and one request is delivered twice.",
			Lesson: "The second delivery takes the lock again after it had ended, under the same name, and the confirm takes it for the first. So the value has the counter in it, and the client library re-sends nothing.",
			Broken: Twice, States: 790178, Large: true, run: redlock(func(r *RedlockRules) { r.Exact, r.Double = false, 1 }),
		},
		{
			Name: "V3kd", Change: "The protocol as it is, and one request is delivered twice.",
			Lesson: "Holds.", States: 2024799, Large: true, run: redlock(func(r *RedlockRules) { r.Double = 1 }),
		},
		{
			Name: "V5", Change: "A node loses its data and is back at once, empty.",
			Lesson: "Its counter begins again, and with it the majority that it tips. So a node that forgot stays out: its marker is gone.",
			Broken: Twice, States: 7017, run: redlock(func(r *RedlockRules) { r.Loss, r.Back = 1, true }),
		},
		{
			Name: "V5r", Change: "A node is back at once and has lost its last write only.",
			Lesson: "One second of an append-only file is enough. So the marker of a node that is not durable names its run, and a restart alone keeps it out.",
			Broken: Twice, States: 6060, run: redlock(func(r *RedlockRules) { r.Loss, r.Back, r.Slip = 1, true, true }),
		},
		{
			Name: "V6", Change: "A node that lost its data is back, empty, after the locks of then have ended.",
			Lesson: "To wait a TTL saves the lock, not the numbers.",
			Broken: Twice, States: 28974, run: redlock(func(r *RedlockRules) { r.Loss, r.Admit, r.Wait = 1, true, true }),
		},
		{
			Name: "V7", Change: "A node that lost its data is admitted at once, with the counters of both peers.",
			Lesson: "What its peers granted before may still be confirmed, by a majority that the node was part of. So admission waits for the longest TTL.",
			Broken: Twice, States: 2827559, Large: true, run: redlock(func(r *RedlockRules) { r.Loss, r.Admit, r.Peers = 1, true, 2 }),
		},
		{
			Name: "V8", Change: "A node that lost its data is admitted after a TTL, with the counter of one peer.",
			Lesson: "That peer need not have been part of the last majority. So the counters of N-Q+1 peers are taken.",
			Broken: Twice, States: 97737, run: redlock(func(r *RedlockRules) { r.Loss, r.Admit, r.Wait, r.Peers = 1, true, true, 1 }),
		},
		{
			Name: "V9", Change: "A node that lost its data is admitted after a TTL, with the counters of N-Q+1 peers. Counters are 0 at the beginning.",
			Lesson: "Holds: this is what the operator's Admit does.",
			States: 4121051, Large: true, run: redlock(func(r *RedlockRules) { r.Loss, r.Admit, r.Wait, r.Peers, r.Highest = 1, true, true, 2, 0 }),
		},
		{
			Name: "V9g", Change: "Admission as in V9, and late grants are confirmed where the counter is not above the number.",
			Lesson: "What holds without losses need not hold with them.",
			Broken: Twice, States: 2771050, Large: true, run: redlock(func(r *RedlockRules) {
				r.Loss, r.Admit, r.Wait, r.Peers, r.OnlyS, r.Lower = 1, true, true, 2, false, true
			}),
		},
		{
			Name: "V10", Change: "A node that lost its data stays out: the quarantine. Counters are 0 at the beginning.",
			Lesson: "Holds: this is what happens until the operator acts.",
			States: 128373, run: redlock(func(r *RedlockRules) { r.Loss, r.Highest = 1, 0 }),
		},
	}
}
