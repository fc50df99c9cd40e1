package lab_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fencegate/fencegate/internal/lab"
	"github.com/fencegate/fencegate/internal/trace"
)

// TestThePausedClient tells of the paused client in every mode: its write is parked, and is the first
// thing that it does when it goes on.
func TestThePausedClient(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		mode      lab.Mode
		gap       bool // A goes on before B has written
		outcome   string
		damage    string
		remaining string
	}{
		{lab.ModeNone, false, "accepted", "A wrote 9 over what B had written", "9"},
		{lab.ModeLock, false, "accepted", "A wrote 9 over what B had written", "9"},
		{lab.ModeWrites, false, "refused", "", "9"},
		{lab.ModeWrites, true, "accepted", "B wrote 9 over what A had written", "9"},
		{lab.ModeGrant, false, "refused", "", "9"},
		{lab.ModeGrant, true, "refused", "", "9"},
	} {
		t.Run(fmt.Sprintf("%s-%v", c.mode, c.gap), func(t *testing.T) {
			t.Parallel()
			g := newBench(t, inMemory()).begin(lab.NewSession{Mode: c.mode})
			for _, a := range []lab.Action{lab.Acquire, lab.Read, lab.Check, lab.Pause} {
				g.do("A", a)
			}
			if d := g.command(lab.Command{Actor: "A", Action: lab.Write}); d.Status != "parked" || d.Event != nil || d.State.Clients[0].Parked != 1 {
				t.Errorf("the write of a paused client: got %+v", d)
			}
			g.do("operator", lab.Expire)
			g.do("B", lab.Acquire)
			g.do("B", lab.Read)
			if !c.gap {
				g.do("B", lab.Write)
			}
			d := g.command(lab.Command{Actor: "A", Action: lab.Resume})
			if len(d.Resumed) != 1 || d.Resumed[0].Action != "write" || d.Resumed[0].Outcome != c.outcome {
				t.Fatalf("the late write: got %+v", d.Resumed)
			}
			if c.gap {
				g.do("B", lab.Write)
			}
			st, all := g.state(), g.all()
			if st.Account.Remaining != c.remaining || st.Account.HandedOut != map[bool]string{true: "2", false: "1"}[c.damage != ""] {
				t.Errorf("got %+v\n%s", st.Account, show(all))
			}
			if told := strings.Join(st.Damage, "\n"); (c.damage == "") != (told == "") || !strings.Contains(told, c.damage) {
				t.Errorf("got damage %q, want %q", told, c.damage)
			}
			if c.mode == lab.ModeGrant {
				late := d.Resumed[0]
				if late.Reason != "superseded" || late.Number != "33" || late.Highest != "34" || late.Text != "The store has seen 34, so it refuses the write with 33." {
					t.Errorf("got %+v", late)
				}
			}
		})
	}
}

// TestTheGetterMistakeInCommits shows that the defeat covers commits over several resources.
func TestTheGetterMistakeInCommits(t *testing.T) {
	t.Parallel()
	g := newBench(t, inMemory()).begin(lab.NewSession{Mode: lab.ModeLock})
	stock := func(actor string, a lab.Action) {
		if d := g.command(lab.Command{Actor: actor, Action: a, Resource: lab.Stock}); d.Status != "done" {
			t.Fatalf("got %+v", d)
		}
	}
	g.do("A", lab.Acquire)
	stock("A", lab.Acquire)
	g.do("A", lab.Pause)
	g.do("operator", lab.Expire)
	stock("operator", lab.Expire)
	g.do("B", lab.Acquire)
	stock("B", lab.Acquire)
	g.do("A", lab.Resume)
	e := g.do("A", lab.Pair)
	if e.Outcome != "accepted" || e.Number != "33" || !strings.Contains(e.Exchanges[0].Body, `"33.`) || !strings.Contains(e.Exchanges[0].Body, `"7.`) {
		t.Errorf("got %+v", e)
	}
	if st := g.state(); st.Stock != "9" || st.Account.Remaining != "9" {
		t.Errorf("got %+v", st)
	}
}

// TestParkedInOrder parks several actions.
func TestParkedInOrder(t *testing.T) {
	t.Parallel()
	g := newBench(t, inMemory()).begin(lab.NewSession{Mode: lab.ModeGrant})
	g.do("A", lab.Acquire)
	g.do("A", lab.Pause)
	want := []lab.Action{lab.Read, lab.Write, lab.Receipt, lab.LoseReply, lab.Add, lab.Release}
	for i, a := range want {
		if d := g.command(lab.Command{Actor: "A", Action: a}); d.Status != "parked" || d.State.Clients[0].Parked != i+1 {
			t.Errorf("%s: got %+v", a, d)
		}
	}
	d := g.command(lab.Command{Actor: "A", Action: lab.Resume})
	var got []lab.Action
	for _, e := range d.Resumed {
		got = append(got, lab.Action(e.Action))
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if d.Resumed[4].Outcome != "unknown" || !d.Resumed[4].Exchanges[0].Lost || d.State.Clients[0].Parked != 0 {
		t.Errorf("got %+v", d)
	}
}

// TestAPauseStopsRenewals waits for real time: while A is awake its lease outlives its TTL, and B waits;
// while A is paused it ends by itself, and B gets the lock.
func TestAPauseStopsRenewals(t *testing.T) {
	t.Parallel()
	for _, lock := range []string{"", "nodes"} {
		t.Run("lock="+lock, func(t *testing.T) {
			t.Parallel()
			g := newBench(t, inMemory()).begin(lab.NewSession{Mode: lab.ModeGrant, TTL: "2s", Lock: lock}) // a busy machine must not lose it
			g.do("A", lab.Acquire)
			if d := g.command(lab.Command{Actor: "B", Action: lab.Acquire}); d.Status != "waiting" || d.State.Clients[1].Busy != "acquire" {
				t.Fatalf("got %+v", d)
			}
			first := g.state().Clients[0].Leases[0]
			g.until(func() bool { // two lease times
				st := g.state()
				return st.NowMS > first.FromMS+4000 && len(st.Clients[0].Leases) == 1 && st.Clients[0].Leases[0].UntilMS > st.NowMS
			})
			if all := g.all(); slices.ContainsFunc(all, func(e trace.Event) bool { return e.Action == "renew" || e.Action == "expire" }) {
				t.Errorf("renewals that went well are silent: got %s", show(all))
			}
			g.do("A", lab.Pause)
			all := g.watch("", func(events []trace.Event, _ string) bool { return granted(events, "B") })
			ended := slices.IndexFunc(all, func(e trace.Event) bool { return e.Actor == "lock" && e.Action == "expire" && e.Number == "33" })
			if lock == "" && (ended < 0 || !strings.Contains(all[ended].Text, "A is paused and does not know")) {
				t.Errorf("got %s", show(all))
			}
			// What A finds when it goes on: nobody told it, but its clock has run.
			g.do("A", lab.Resume)
			if e := g.do("A", lab.Check); e.Outcome != "lost" {
				t.Errorf("got %+v", e)
			}
			if e := g.do("A", lab.Release); e.Outcome != "lost" || !strings.Contains(e.Text, "nothing to give back") {
				t.Errorf("got %+v", e)
			}
		})
	}
}

// TestWhoIsAwakeFindsOut ends A's hold while A is awake: its next renewal is told, once.
func TestWhoIsAwakeFindsOut(t *testing.T) {
	t.Parallel()
	g := newBench(t, inMemory()).begin(lab.NewSession{Mode: lab.ModeGrant, TTL: "6s"})
	g.do("A", lab.Acquire)
	if e := g.do("operator", lab.Expire); e.Actor != "operator" || e.Number != "33" || !strings.Contains(e.Text, "A does not know until its next renewal") {
		t.Errorf("got %+v", e)
	}
	isLoss := func(e trace.Event) bool { return e.Actor == "A" && e.Action == "renew" && e.Outcome == "lost" }
	g.watch("", func(events []trace.Event, _ string) bool { return slices.ContainsFunc(events, isLoss) })
	if st := g.state(); len(st.Clients[0].Leases) != 0 {
		t.Errorf("A still believes in %+v", st.Clients[0].Leases)
	}
	at := g.state().NowMS
	g.until(func() bool { return g.state().NowMS > at+4200 }) // two more renewals would be due
	n := 0
	for _, e := range g.all() {
		if isLoss(e) {
			n++
		}
	}
	if n != 1 {
		t.Errorf("a lost lease was told of %d times", n)
	}
}

func granted(events []trace.Event, actor string) bool {
	return slices.ContainsFunc(events, func(e trace.Event) bool {
		return e.Actor == actor && e.Action == "acquire" && e.Outcome == "granted"
	})
}

// until looks again and again until cond is true.
func (b *bench) until(cond func() bool) {
	b.tb.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(patience); !cond(); {
		select {
		case <-tick.C:
		case <-late:
			b.tb.Fatal("it never came")
		case <-b.tb.Context().Done():
			b.tb.Fatal("the test is over")
		}
	}
}

// TestWaitingForTheLock lets B wait, be paused while it waits, and get the lock while it is paused.
func TestWaitingForTheLock(t *testing.T) {
	t.Parallel()
	g := newBench(t, inMemory()).begin(lab.NewSession{Mode: lab.ModeGrant})
	g.do("A", lab.Acquire)
	if d := g.command(lab.Command{Actor: "B", Action: lab.Acquire}); d.Status != "waiting" {
		t.Fatalf("got %+v", d)
	}
	if d := g.command(lab.Command{Actor: "B", Action: lab.Read}); d.Status != "waiting" {
		t.Fatalf("what comes after it waits, too: got %+v", d)
	}
	g.do("B", lab.Pause)
	g.do("A", lab.Release)
	if all := g.all(); granted(all, "B") {
		t.Errorf("a paused client took its grant in: %s", show(all))
	}
	g.do("B", lab.Resume)
	all := g.watch("", func(events []trace.Event, _ string) bool {
		return len(events) > 0 && events[len(events)-1].Action == "read"
	})
	if !granted(all, "B") {
		t.Errorf("got %s", show(all))
	}
}

// TestReleaseServesTheNext: when a release is answered, who waited has the lock.
func TestReleaseServesTheNext(t *testing.T) {
	t.Parallel()
	g := newBench(t, inMemory()).begin(lab.NewSession{Mode: lab.ModeGrant})
	g.do("A", lab.Acquire)
	g.command(lab.Command{Actor: "B", Action: lab.Acquire})
	d := g.command(lab.Command{Actor: "A", Action: lab.Release})
	if l := d.State.Clients[1].Leases; len(l) != 1 || l[0].Number != "34" || d.State.Clients[1].Busy != "" {
		t.Errorf("got %+v", d.State)
	}
}

// TestALostReply loses replies on their way.
func TestALostReply(t *testing.T) {
	t.Parallel()
	g := newBench(t, inMemory()).begin(lab.NewSession{Mode: lab.ModeGrant})
	g.do("A", lab.LoseReply)
	e := g.do("A", lab.Acquire)
	if x := e.Exchanges[0]; e.Outcome != "unknown" || !x.Lost || x.Status != 0 || x.Reply != "" || x.Replied != nil {
		t.Errorf("got %+v", e)
	}
	if st := g.state(); len(st.Clients[0].Leases) != 0 {
		t.Errorf("A knows of a lease that it was not told of: %+v", st)
	}
	if e := g.do("A", lab.Reenter); e.Outcome != "granted" || e.Number != "33" {
		t.Errorf("the same grant id finds the hold: got %+v", e)
	}
	g.do("A", lab.LoseReply)
	if e := g.do("A", lab.Add); e.Outcome != "unknown" || e.Damage != "" {
		t.Errorf("got %+v", e)
	}
	if a := g.state().Account; !a.Held || a.Remaining != "9" || a.HandedOut != "0" || !strings.Contains(a.Text, "not told") {
		t.Errorf("got %+v", a)
	}
	if e := g.do("A", lab.Retry); e.Outcome != "accepted" || !strings.Contains(e.Damage, "applied twice") {
		t.Errorf("got %+v", e)
	}
	if a := g.state().Account; a.Held || a.Remaining != "8" || a.HandedOut != "1" || a.Text != "1 vanished" {
		t.Errorf("got %+v", a)
	}
}

// TestARetryIsTheSameRequest compares the bytes, and the account of one that was answered before.
func TestARetryIsTheSameRequest(t *testing.T) {
	t.Parallel()
	g := newBench(t, inMemory()).begin(lab.NewSession{Mode: lab.ModeGrant})
	g.do("A", lab.Acquire)
	d := g.command(lab.Command{Actor: "A", Action: lab.Add, Key: "claim-1"})
	r := g.do("A", lab.Retry)
	first, second := d.Event.Exchanges[0], r.Exchanges[0]
	if first.URL != second.URL || first.Body != second.Body || !slices.Equal(first.Headers, second.Headers) ||
		!slices.Contains(second.Replied, "Idempotency-Replayed: true") {
		t.Errorf("got\n%+v, then\n%+v", first, second)
	}
	if a := g.state().Account; !a.Held || a.Remaining != "9" || a.HandedOut != "1" {
		t.Errorf("got %+v", a)
	}
}

// TestAHalfDoneTask counts down and is refused the receipt.
func TestAHalfDoneTask(t *testing.T) {
	t.Parallel()
	g := newBench(t, inMemory()).begin(lab.NewSession{Mode: lab.ModeGrant})
	for _, a := range []lab.Action{lab.Acquire, lab.Read, lab.Write} {
		g.do("A", a)
	}
	g.do("operator", lab.Evict)
	e := g.do("A", lab.Receipt)
	if e.Outcome != "refused" || e.Reason != "retired" || !strings.Contains(e.Damage, "half done") {
		t.Errorf("got %+v", e)
	}
	if st := g.state(); !slices.Equal(st.Damage, []string{e.Damage}) || !st.Account.Held {
		t.Errorf("got %+v", st)
	}
}

// TestWaitIsNoFence lets one lease time pass, also where it is longer than anybody waits.
func TestWaitIsNoFence(t *testing.T) {
	t.Parallel()
	for _, ttl := range []string{"2s", "1m"} {
		t.Run(ttl, func(t *testing.T) {
			t.Parallel()
			g := newBench(t, inMemory()).begin(lab.NewSession{Mode: lab.ModeGrant, TTL: ttl})
			g.do("A", lab.Acquire)
			g.do("B", lab.Read)
			g.do("operator", lab.Wait) // A is awake and renews
			if e := g.do("A", lab.Check); e.Outcome != "ok" {
				t.Errorf("awake: got %+v", e)
			}
			g.do("A", lab.Pause)
			g.do("operator", lab.Wait)
			if e := g.do("B", lab.Acquire); e.Outcome != "granted" || e.Number != "34" {
				t.Errorf("got %+v", e)
			}
			g.do("A", lab.Resume)
			if e := g.do("A", lab.Check); e.Outcome != "lost" {
				t.Errorf("got %+v", e)
			}
		})
	}
}

// TestSentences reads what is told of writes whose values the store computes, or that bear no token.
func TestSentences(t *testing.T) {
	t.Parallel()
	b := newBench(t, inMemory())
	fenced, locked := b.begin(lab.NewSession{Mode: lab.ModeGrant}), b.begin(lab.NewSession{Mode: lab.ModeLock})
	fenced.do("A", lab.Acquire)
	if got, want := fenced.do("A", lab.Add).Text, "A lets the store subtract one with 33: the store has seen nothing newer, and accepts it. 9 are left."; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := locked.do("A", lab.Add).Text, "A lets the store subtract one. On the way to the store it gets a token that is good now, so the check means nothing. 9 are left."; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
