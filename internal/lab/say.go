package lab

import (
	"github.com/fencegate/fencegate/gateway/wire"
	"github.com/fencegate/fencegate/internal/trace"
)

// modes are the modes for people.
func modes() []ModeAbout {
	return []ModeAbout{
		{ModeNone, "No lock", "A and B read and write as they like. They send no tokens, and nothing is checked."},
		{ModeLock, "The lock only", "A and B take the lock and send its tokens, and nobody looks at them: every write is given a token that is good now, whoever sends it."},
		{ModeWrites, "The fence, checked on writes", "The store refuses tokens below the highest that it has seen, and hears of a token by the first write that bears it."},
		{ModeGrant, "The fence, raised at the grant", "The store knows a token before its holder does, so whatever an older holder still sends is refused."},
	}
}

// of names the resource where it is not the usual one.
func of(short string) string {
	if short == Coupon {
		return ""
	}
	return " for the " + short
}

// grantText says what a grant means in the session's mode.
func (c *client) grantText(e *trace.Event, m wire.LockReply) string {
	if e.Action == string(Reenter) {
		return c.name + " asks again with the same grant, and gets the same token: " + e.Number + "."
	}
	text := c.name + " holds the lock, with token " + e.Number + of(e.Resource) + "."
	if m.Waited > wire.Duration(waitWorthTelling) {
		text = c.name + " has waited, and holds the lock now, with token " + e.Number + of(e.Resource) + "."
	}
	if c.s.nodes != nil {
		text += " The nodes that said yes are " + c.s.nodes.where(c.grants[e.Resource]) + "."
	}
	switch c.s.mode {
	case ModeGrant:
		return text + " The store knew the number before " + c.name + " did."
	case ModeWrites:
		return text + " The store has not heard of it."
	case ModeNone, ModeLock:
	}
	return text
}

// acceptedText says what an accepted write means.
func (c *client) acceptedText(e *trace.Event, w *sent, replayed bool) string {
	switch {
	case replayed:
		return "The store finds this key among its answers: it was done before, it answers the same, and changes nothing."
	case w.slow:
		return "The gateway takes the lock, subtracts one and frees the lock, all in this call: " + e.Value + " are left."
	}
	what, left := c.name+" writes "+e.Value, ""
	switch {
	case e.Action == string(Receipt):
		what = c.name + " puts its receipt"
	case e.Action == string(Retry):
		what = c.name + " sends the same again"
	case e.Action == string(Pair):
		what = c.name + " takes one of each, coupon and stock, in one commit"
	case e.Action == string(Commit):
		what = c.name + " writes " + e.Value + " and its receipt in one commit"
	case w.value == "":
		what, left = c.name+" lets the store subtract one", " "+e.Value+" are left."
	}
	switch {
	case c.s.mode == ModeNone:
		return what + ". Nothing is checked." + left
	case c.s.mode == ModeLock && e.Number == "":
		return what + ". On the way to the store it gets a token that is good now, so the check means nothing." + left
	case c.s.mode == ModeLock:
		return what + ". On the way to the store " + e.Number + " is replaced by a token that is good now, so the check means nothing." + left
	case e.Number == "":
		return what + "." + left
	}
	return what + " with " + e.Number + ": the store has seen nothing newer, and accepts it." + left
}

// refusedText says why something was refused.
func refusedText(s *session, e *trace.Event, p wire.Problem) string {
	what := "the write with " + e.Number
	if e.Action == string(Read) {
		what = "the read with " + e.Number
	}
	if short, ok := s.short(p.Resource); ok && short != e.Resource && p.Number != nil {
		what = "the whole commit, for its token of the " + short + " is old"
	}
	switch p.Slug() {
	case wire.SlugStaleToken:
		switch p.Reason {
		case "superseded":
			return "The store has seen " + e.Highest + ", so it refuses " + what + "."
		case "retired":
			return "The token " + e.Highest + " was ended, by its release or by an eviction: the store refuses " + what + "."
		case "duplicate":
			return "The store knows " + e.Highest + " with another grant id: the number alone proves nothing, and it refuses " + what + "."
		case "ungranted":
			return "Nobody was ever granted " + e.Number + ": a strict store refuses a number that was not raised."
		}
	case wire.SlugTokenRequired:
		return e.Actor + " sends no token: the store refuses the write."
	case wire.SlugBelowMinimum:
		return "None are left: the store refuses to go below 0."
	case wire.SlugHeld:
		return "Somebody else holds the lock, and the wait is over: nothing happened."
	case wire.SlugKeyReused:
		return "This key was used for another commit before: the store refuses it."
	case wire.SlugRecordNotFound:
		return "There is no such record."
	}
	if p.Detail != "" {
		return "Refused: " + p.Title + " (" + p.Detail + ")."
	}
	return "Refused: " + p.Title + "."
}
