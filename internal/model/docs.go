package model

import (
	"fmt"
	"strings"
)

// Docs writes docs/models.md: what is explored, and the counterexamples in words. steps has those of
// the variants that are not Large; of the others it says how to see them.
func Docs(steps map[string][]Step) string {
	var b strings.Builder
	b.WriteString(`# Models, and what they found

<!-- Written by go test ./internal/model -run TestDocs -update; do not edit. -->

The rules were chosen with explicit-state models: every interleaving of every step, within small bounds, breadth first. A rule that is
too weak shows a shortest schedule that breaks it. The models are part of the tests (` + "`internal/model`" + `): ` + "`make model`" + ` explores them, with LARGE=1 the large ones, too: each
weaker form must break in exactly the way named here, and the rules as they are must hold, with exactly this number of states.

`)
	section(&b, "The fence of a data store", `Three holders, A, B and C, who all believe that they hold the lock: it may end at any time. Each reads, and writes what it read with its own update added; a value is
shown as the set of the updates in it. LOST: an acknowledged update is not in the value at the end. GHOST: an update is there, and its holder was told that it was refused. DOUBLE:
one was applied twice. TORN: two values that belong together were seen, or left, apart. Where nothing else is said, the three have the numbers 1, 2 and 3, in every order; "any numbers" means the same one
twice, too.`, StorageVariants(), steps)
	section(&b, "Numbers from three independent Redis masters", `Two attempts at three nodes; requests arrive late or never, any majority of replies may be the one that is heard, locks end at any time, counters begin at 0 or 1 in every
combination. TWICE: a number is issued twice. DESCEND: a number is not above one that was complete before its attempt began. `+"`locking/redlock`"+` plays such counterexamples to the real code over real nodes (TestWeakerRulesAgainstTheRealCode).`,
		RedlockVariants(), steps)
	return b.String()
}

func section(b *strings.Builder, title, intro string, all []Variant, steps map[string][]Step) {
	fmt.Fprintf(b, "## %s\n\n%s\n\n| variant | what is done | verdict | states |\n|---|---|---|---|\n", title, intro)
	for _, v := range all {
		verdict := "holds"
		if v.Broken != "" {
			verdict = v.Broken
		}
		large := ""
		if v.Large {
			large = " (with `-large`)"
		}
		fmt.Fprintf(b, "| %s | %s | %s | %d%s |\n", v.Name, v.Change, verdict, v.States, large)
	}
	b.WriteString("\nThe number of states of a variant that does not hold is that until the break was found.\n\n")
	for _, v := range all {
		if v.Broken == "" {
			continue
		}
		fmt.Fprintf(b, "### %s: %s\n\n%s\n\n", v.Name, v.Broken, v.Change)
		for i, st := range steps[v.Name] {
			fmt.Fprintf(b, "%d. %s\n", i+1, st.Text)
		}
		if steps[v.Name] == nil {
			fmt.Fprintf(b, "`go test ./internal/model -large -run 'TestVariants/%s$' -v` prints the schedule.\n", v.Name)
		}
		fmt.Fprintf(b, "\n%s\n\n", v.Lesson)
	}
}
