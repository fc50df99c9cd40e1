package model

// Model is what [Explore] explores. A state is a value: no pointers in it.
type Model[S comparable] interface {
	// Starts returns the states to begin with.
	Starts() []S
	// Next calls add with each state that may follow. The step has its text if say is true, which it
	// is for a counterexample only; broken names the rule that the step breaks, or is empty.
	Next(s *S, say bool, add func(next S, step Step, broken string))
	// Same returns one and the same state for all that differ only by their names: a
	// representative. The identity will do.
	Same(s S) S
}

// Step is one step of a schedule. Models with an event in it can be played to real code.
type Step struct {
	Event   Event
	Attempt int // the attempt, counted from 0, where one is concerned
	Node    int // the node, where one is concerned
	Set     int // a set of nodes, one bit each, where one is concerned
	Text    string
}

// Finding is what an exploration came to.
type Finding[S comparable] struct {
	States  int    // how many there are, or were seen until Broken was found
	Limited bool   // there are more: the limit was reached, and nothing is proven
	Broken  string // the rule that does not hold; empty if all do
	Start   S      // where the shortest way to that begins
	Steps   []Step // and its steps
}

// Explore visits every state that can be reached, the nearest first, until a rule is broken or so
// many states were seen.
func Explore[S comparable](m Model[S], limit int) Finding[S] {
	e := explorer[S]{m: m, seen: map[S]struct{}{}}
	for _, s := range m.Starts() {
		e.push(s, -1)
	}
	for i := int32(0); int(i) < len(e.queue); i++ {
		broken := ""
		s := e.queue[i]
		m.Next(&s, false, func(next S, _ Step, bad string) {
			if broken == "" {
				broken = bad
			}
			e.push(next, i)
		})
		if broken != "" {
			start, steps := e.way(i)
			return Finding[S]{States: len(e.queue), Broken: broken, Start: start, Steps: steps}
		}
		if len(e.queue) > limit {
			return Finding[S]{States: len(e.queue), Limited: true}
		}
	}
	return Finding[S]{States: len(e.queue)}
}

type explorer[S comparable] struct {
	m       Model[S]
	seen    map[S]struct{}
	queue   []S
	parents []int32
}

func (e *explorer[S]) push(s S, parent int32) {
	s = e.m.Same(s)
	if _, ok := e.seen[s]; !ok {
		e.seen[s] = struct{}{}
		e.queue, e.parents = append(e.queue, s), append(e.parents, parent)
	}
}

// way is the way to the state queue[last], from which a step breaks a rule. The queue has
// representatives; on the way everything keeps its name.
func (e *explorer[S]) way(last int32) (start S, steps []Step) {
	var chain []S
	for k := last; k >= 0; k = e.parents[k] {
		chain = append([]S{e.queue[k]}, chain...)
	}
	start = chain[0]
	now := start
	for _, want := range chain[1:] {
		var then S
		found := false
		e.m.Next(&now, true, func(next S, step Step, _ string) {
			if !found && e.m.Same(next) == want {
				found, then = true, next
				steps = append(steps, step)
			}
		})
		now = then
	}
	done := false
	e.m.Next(&now, true, func(_ S, step Step, broken string) {
		if broken != "" && !done {
			done = true
			steps = append(steps, step)
		}
	})
	return start, steps
}
