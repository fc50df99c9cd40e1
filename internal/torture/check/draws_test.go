package check_test

import (
	"strings"
	"testing"

	"github.com/fencegate/fencegate/internal/torture/check"
	"github.com/fencegate/fencegate/internal/torture/history"
)

// TestDraws: what a lock store draws is looked at by itself: the stores would heal it.
func TestDraws(t *testing.T) {
	t.Parallel()
	draw := func(call, ret, number int64, grant string) history.Draw {
		return history.Draw{Call: call, Return: ret, Token: history.Token{Resource: "r", Number: number, Grant: grant}}
	}
	lost := []history.Fault{{Name: "forget", From: 5, To: 6, Recovered: 7, Loses: []history.Loss{history.LosesLocks}}}
	for _, c := range []struct {
		name   string
		draws  []history.Draw
		faults []history.Fault
		want   string
	}{
		{"in order", []history.Draw{draw(1, 2, 1, "a"), draw(3, 4, 2, "b")}, nil, ""},
		{"at once", []history.Draw{draw(1, 4, 2, "a"), draw(2, 3, 1, "b")}, nil, ""},
		{"heard of twice", []history.Draw{draw(1, 2, 1, "a"), draw(3, 4, 1, "a")}, nil, ""},
		{"of others", []history.Draw{draw(1, 2, 9, "a"), {Call: 3, Return: 4, Token: history.Token{Resource: "s", Number: 1, Grant: "b"}}}, nil, ""},
		{"twice", []history.Draw{draw(1, 4, 1, "a"), draw(2, 3, 1, "b")}, nil, "for two grants"},
		{"back", []history.Draw{draw(1, 2, 9, "a"), draw(3, 4, 8, "b")}, nil, "after client 0 had been told 9"},
		{"back, further down", []history.Draw{draw(1, 2, 9, "a"), draw(1, 3, 10, "b"), draw(4, 5, 10, "c")}, nil, "drew 10"},
		{"forgotten", []history.Draw{draw(1, 2, 9, "a"), draw(7, 8, 1, "b")}, lost, ""},
		{"before it forgot", []history.Draw{draw(1, 2, 9, "a"), draw(3, 4, 8, "b")}, lost, "drew 8"},
	} {
		res := check.Check(&history.History{Draws: c.draws, Faults: c.faults, Ended: 100}, nil)
		got := ""
		for _, v := range res.Violations {
			if v.Check == "draws" {
				got += v.Text + "\n"
			}
		}
		var live check.Live
		for _, f := range c.faults {
			live.Fault(f)
		}
		for _, d := range c.draws {
			live.Draw(d)
		}
		if found := len(live.Violations()) > 0; found && got == "" || c.name == "twice" && !found {
			t.Errorf("%s: while it runs: %v", c.name, live.Violations())
		}
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}
