package browsertest_test

import (
	_ "embed"
)

//go:embed testdata/layout.js
var layoutJS string

//go:embed testdata/axe/axe.min.js
var axeMin string

//go:embed testdata/axe.js
var axeJS string

// sound fails the test where the layout is broken or axe-core has serious findings.
func (p *tab) sound(where string) {
	p.t.Helper()
	p.laidOut(where)
	for _, finding := range p.axe() {
		p.t.Errorf("%s: axe: %s", where, finding)
	}
}

func (p *tab) laidOut(where string) {
	p.t.Helper()
	for _, finding := range eval[[]string](p, layoutJS) {
		p.t.Errorf("%s: %s", where, finding)
	}
}

func (p *tab) axe() []string {
	p.t.Helper()
	var found []string
	p.excuse(func() {
		if !eval[bool](p, "!!window.axe") {
			eval[bool](p, axeMin+"; true")
		}
		found = eval[[]string](p, axeJS)
	})
	return found
}
