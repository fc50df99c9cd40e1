package check

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/fencegate/fencegate/internal/torture/history"
)

// liveLease is a lease that was granted.
type liveLease struct {
	history.Token
	op         string
	ret, until int64 // when it was answered, and until when it was trusted then
	end        int64 // until when it was really trusted; 0: it was not released yet, and only its holder knows
}

// liveLeases is how many leases of a resource are kept. A holder who releases after so many others is left to Check.
const liveLeases = 64

// lease keeps a lease, and looks whether it was granted while another was trusted.
func (l *Live) lease(op *history.Op, t history.Token) {
	b := liveLease{Token: t, op: op.ID, ret: op.Return, until: op.Until}
	all := l.leases[t.Resource]
	for _, a := range all {
		l.trust(op, a, b)
	}
	l.leases[t.Resource] = append(all[max(0, len(all)+1-liveLeases):], b)
}

// unlease notes until when the leases were trusted that are released, and looks whether somebody else was granted one meanwhile.
func (l *Live) unlease(op *history.Op) {
	for _, t := range op.Tokens {
		all := l.leases[t.Resource]
		i := slices.IndexFunc(all, func(a liveLease) bool { return a.Grant == t.Grant })
		if i < 0 || all[i].end != 0 {
			continue
		}
		all[i].end = min(cmp.Or(op.Until, op.Call), op.Call)
		for _, b := range all {
			l.trust(op, all[i], b)
		}
	}
}

// trust looks whether lease b was granted while a was trusted.
func (l *Live) trust(op *history.Op, a, b liveLease) {
	if l.locksLost || a.Grant == b.Grant || b.ret < a.ret || b.ret >= min(a.end, b.until) {
		return
	}
	l.violate("INV9", "trust", op, trustText(b.Token, a.Token, min(a.end, b.until)-b.ret), a.op, b.op)
}

// trustText says that a lock was granted while an older lease was trusted for another while.
func trustText(granted, older history.Token, another int64) string {
	return fmt.Sprintf("%s was granted as number %d while the lease of number %d was trusted for another %v", granted.Resource, granted.Number, older.Number, time.Duration(another))
}
