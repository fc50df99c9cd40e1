// Package fencingtest holds the one table (mark, token, mode) -> verdict that every
// implementation of the rule is tested against: Go, SQL and Lua.
package fencingtest

import "github.com/fencegate/fencegate/fencing"

// Two grant ids. They are test data, not secrets.
const (
	GrantA = "AAAAAAAAAAAAAAAAAAAAAAAAAA"
	GrantB = "BBBBBBBBBBBBBBBBBBBBBBBBBB"
)

// Op is what is done with the token.
type Op string

// The operations of the table.
const (
	Use    Op = "use" // a commit or a fenced read
	Raise  Op = "raise"
	Retire Op = "retire"
	Evict  Op = "evict"
)

// State is a store's memory of the resource before the operation.
type State struct {
	Mark      fencing.Mark
	Absent    bool  // there is no mark; Mark is ignored
	Floor     int64 // the store's floor; 0 where nothing was pruned
	Inherited bool  // the mark was made in an earlier incarnation
}

// Seen returns the mark that the rule has to judge by.
func (s State) Seen() fencing.Mark {
	if s.Absent {
		return fencing.Absent(s.Floor)
	}
	m := s.Mark
	if s.Inherited {
		m.Retired = true
	}
	return m
}

// Case is one row. Want is the reason of the refusal, empty where the operation is
// accepted; Invalid where the token is refused before the rule. After is the mark that
// the store shows afterwards.
type Case struct {
	Name    string
	Op      Op
	Mode    fencing.Mode
	State   State
	Token   fencing.Token // Resource is filled in by the test
	Want    fencing.Reason
	Invalid bool
	After   fencing.Mark
}

func live(n int64, grant string) State { return State{Mark: fencing.Mark{Number: n, Grant: grant}} }
func retired(n int64) State            { return State{Mark: fencing.Mark{Number: n, Retired: true}} }

func token(n int64, grant string) fencing.Token {
	return fencing.Token{Number: n, Grant: grant}
}

const (
	most    = fencing.MaxNumber
	strict  = fencing.Strict
	classic = fencing.Classic
)

// Table returns the cases, written out by hand: this is the rule, not a computation
// of it.
func Table() []Case {
	var (
		absent    = State{Absent: true}
		floor9    = State{Absent: true, Floor: 9}
		inherited = State{Mark: fencing.Mark{Number: 34, Grant: GrantA}, Inherited: true}
		at34      = fencing.Mark{Number: 34, Grant: GrantA}
		ended34   = fencing.Mark{Number: 34, Retired: true}
		none      = fencing.Mark{Retired: true}
	)
	return []Case{
		// Strict: only the mark itself.
		{"older", Use, strict, live(34, GrantA), token(33, GrantB), fencing.Superseded, false, at34},
		{"older, same grant", Use, strict, live(34, GrantA), token(33, GrantA), fencing.Superseded, false, at34},
		{"one", Use, strict, live(34, GrantA), token(1, GrantB), fencing.Superseded, false, at34},
		{"equal", Use, strict, live(34, GrantA), token(34, GrantA), "", false, at34},
		{"equal, another grant", Use, strict, live(34, GrantA), token(34, GrantB), fencing.Duplicate, false, at34},
		{"equal, retired", Use, strict, retired(34), token(34, GrantA), fencing.Retired, false, ended34},
		{"older than a retired one", Use, strict, retired(34), token(33, GrantA), fencing.Superseded, false, ended34},
		{"newer", Use, strict, live(34, GrantA), token(35, GrantB), fencing.Ungranted, false, at34},
		{"newer, same grant", Use, strict, live(34, GrantA), token(35, GrantA), fencing.Ungranted, false, at34},
		{"newer than a retired one", Use, strict, retired(34), token(35, GrantB), fencing.Ungranted, false, ended34},
		{"absent", Use, strict, absent, token(1, GrantA), fencing.Ungranted, false, none},
		{"plain", Use, strict, live(34, GrantA), token(34, ""), fencing.GrantRequired, false, at34},
		{"plain, older", Use, strict, live(34, GrantA), token(33, ""), fencing.GrantRequired, false, at34},
		{"plain, newer", Use, strict, live(34, GrantA), token(35, ""), fencing.GrantRequired, false, at34},
		{"plain, retired", Use, strict, retired(34), token(34, ""), fencing.GrantRequired, false, ended34},
		{"plain on a plain mark", Use, strict, live(34, ""), token(34, ""), fencing.GrantRequired, false, fencing.Mark{Number: 34}},
		{"plain, absent", Use, strict, absent, token(1, ""), fencing.GrantRequired, false, none},
		{"highest number", Use, strict, live(most, GrantA), token(most, GrantA), "", false, fencing.Mark{Number: most, Grant: GrantA}},
		{"one below the highest", Use, strict, live(most, GrantA), token(most-1, GrantA), fencing.Superseded, false, fencing.Mark{Number: most, Grant: GrantA}},
		{"highest, never raised", Use, strict, live(34, GrantA), token(most, GrantB), fencing.Ungranted, false, at34},
		{"above the highest", Use, strict, live(34, GrantA), token(most+1, GrantB), "", true, at34},
		{"zero", Use, strict, absent, token(0, GrantA), "", true, none},
		{"negative", Use, strict, live(34, GrantA), token(-1, GrantA), "", true, at34},
		{"bad grant", Use, strict, live(34, GrantA), token(34, "a"), "", true, at34},
		{"digits compare as numbers", Use, strict, live(100, GrantA), token(99, GrantA), fencing.Superseded, false, fencing.Mark{Number: 100, Grant: GrantA}},
		{"fifteen digits", Use, strict, live(100000000000001, GrantA), token(100000000000000, GrantA), fencing.Superseded, false, fencing.Mark{Number: 100000000000001, Grant: GrantA}},
		{"under the floor", Use, strict, floor9, token(8, GrantA), fencing.Superseded, false, fencing.Absent(9)},
		{"at the floor", Use, strict, floor9, token(9, GrantA), fencing.Retired, false, fencing.Absent(9)},
		{"above the floor", Use, strict, floor9, token(10, GrantA), fencing.Ungranted, false, fencing.Absent(9)},
		{"another incarnation", Use, strict, inherited, token(34, GrantA), fencing.Retired, false, ended34},
		{"another incarnation, older", Use, strict, inherited, token(33, GrantA), fencing.Superseded, false, ended34},

		// Classic: a higher number raises the mark.
		{"older", Use, classic, live(34, GrantA), token(33, GrantB), fencing.Superseded, false, at34},
		{"equal", Use, classic, live(34, GrantA), token(34, GrantA), "", false, at34},
		{"equal, another grant", Use, classic, live(34, GrantA), token(34, GrantB), fencing.Duplicate, false, at34},
		{"equal, plain", Use, classic, live(34, GrantA), token(34, ""), fencing.Duplicate, false, at34},
		{"equal, plain mark", Use, classic, live(34, ""), token(34, ""), "", false, fencing.Mark{Number: 34}},
		{"equal, grant on a plain mark", Use, classic, live(34, ""), token(34, GrantA), fencing.Duplicate, false, fencing.Mark{Number: 34}},
		{"retired", Use, classic, retired(34), token(34, GrantA), fencing.Retired, false, ended34},
		{"retired, plain", Use, classic, retired(34), token(34, ""), fencing.Retired, false, ended34},
		{"newer", Use, classic, live(34, GrantA), token(35, GrantB), "", false, fencing.Mark{Number: 35, Grant: GrantB}},
		{"newer, plain", Use, classic, live(34, GrantA), token(35, ""), "", false, fencing.Mark{Number: 35}},
		{"newer than a retired one", Use, classic, retired(34), token(35, ""), "", false, fencing.Mark{Number: 35}},
		{"absent", Use, classic, absent, token(1, ""), "", false, fencing.Mark{Number: 1}},
		{"highest", Use, classic, live(34, ""), token(most, ""), "", false, fencing.Mark{Number: most}},
		{"above the highest", Use, classic, live(34, ""), token(most+1, ""), "", true, fencing.Mark{Number: 34}},
		{"zero", Use, classic, absent, token(0, ""), "", true, none},
		{"at the floor", Use, classic, floor9, token(9, ""), fencing.Retired, false, fencing.Absent(9)},
		{"above the floor", Use, classic, floor9, token(10, ""), "", false, fencing.Mark{Number: 10}},
		{"another incarnation", Use, classic, inherited, token(34, GrantA), fencing.Retired, false, ended34},
		{"another incarnation, newer", Use, classic, inherited, token(35, ""), "", false, fencing.Mark{Number: 35}},

		// Raise.
		{"first", Raise, strict, absent, token(1, GrantA), "", false, fencing.Mark{Number: 1, Grant: GrantA}},
		{"newer", Raise, strict, live(34, GrantA), token(35, GrantB), "", false, fencing.Mark{Number: 35, Grant: GrantB}},
		{"newer than a retired one", Raise, strict, retired(34), token(35, GrantB), "", false, fencing.Mark{Number: 35, Grant: GrantB}},
		{"again", Raise, strict, live(34, GrantA), token(34, GrantA), "", false, at34},
		{"another grant", Raise, strict, live(34, GrantA), token(34, GrantB), fencing.Duplicate, false, at34},
		{"older", Raise, strict, live(34, GrantA), token(33, GrantB), fencing.Superseded, false, at34},
		{"retired", Raise, strict, retired(34), token(34, GrantA), fencing.Retired, false, ended34},
		{"plain", Raise, strict, live(34, GrantA), token(35, ""), fencing.GrantRequired, false, at34},
		{"plain", Raise, classic, live(34, GrantA), token(35, ""), "", false, fencing.Mark{Number: 35}},
		{"to the highest", Raise, strict, live(most-1, GrantA), token(most, GrantB), "", false, fencing.Mark{Number: most, Grant: GrantB}},
		{"above the highest", Raise, strict, live(34, GrantA), token(most+1, GrantB), "", true, at34},
		{"zero", Raise, strict, absent, token(0, GrantA), "", true, none},
		{"at the floor", Raise, strict, floor9, token(9, GrantA), fencing.Retired, false, fencing.Absent(9)},
		{"above the floor", Raise, strict, floor9, token(10, GrantA), "", false, fencing.Mark{Number: 10, Grant: GrantA}},
		{"another incarnation", Raise, strict, inherited, token(34, GrantA), fencing.Retired, false, ended34},
		{"another incarnation, newer", Raise, strict, inherited, token(35, GrantB), "", false, fencing.Mark{Number: 35, Grant: GrantB}},

		// Retire never refuses.
		{"equal", Retire, strict, live(34, GrantA), token(34, GrantA), "", false, ended34},
		{"another grant", Retire, strict, live(34, GrantA), token(34, GrantB), "", false, at34},
		{"older", Retire, strict, live(34, GrantA), token(33, GrantA), "", false, at34},
		{"newer", Retire, strict, live(34, GrantA), token(35, GrantA), "", false, at34},
		{"retired", Retire, strict, retired(34), token(34, GrantA), "", false, ended34},
		{"absent", Retire, strict, absent, token(34, GrantA), "", false, none},
		{"plain", Retire, classic, live(34, ""), token(34, ""), "", false, ended34},
		{"plain on a granted mark", Retire, classic, live(34, GrantA), token(34, ""), "", false, at34},

		// Evict: below, at and above the mark.
		{"above", Evict, strict, live(34, GrantA), token(35, GrantB), "", false, fencing.Mark{Number: 35, Retired: true}},
		{"above a retired one", Evict, strict, retired(34), token(35, GrantB), "", false, fencing.Mark{Number: 35, Retired: true}},
		{"absent", Evict, strict, absent, token(3, GrantB), "", false, fencing.Mark{Number: 3, Retired: true}},
		{"equal", Evict, strict, live(34, GrantA), token(34, GrantA), "", false, ended34},
		{"equal, by number", Evict, strict, live(34, GrantA), token(34, ""), "", false, ended34},
		{"equal, another grant", Evict, strict, live(34, GrantA), token(34, GrantB), "", false, at34},
		{"below", Evict, strict, live(34, GrantA), token(33, GrantB), "", false, at34},
		{"below, by number", Evict, strict, live(34, GrantA), token(33, ""), "", false, at34},
		{"retired", Evict, strict, retired(34), token(34, GrantA), "", false, ended34},
		{"above the highest", Evict, strict, live(34, GrantA), token(most+1, GrantB), "", true, at34},
	}
}
