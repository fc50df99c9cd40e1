package lockingtest

import (
	"testing"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/locking"
)

// transferTest is about a backend that hands locks over.
type transferTest struct {
	*backendTest
	tr locking.Transferrer
}

// runTransfer checks every promise of locking.Transferrer.
func runTransfer(t *testing.T, h BackendHarness) {
	for name, fn := range map[string]func(*transferTest){
		"TransferEndsAndGrants":      transferGrants,
		"TransferOfAnEndedHold":      transferLost,
		"TransferMatchesTheHold":     transferMatches,
		"TransferRespectsTheFloor":   transferFloor,
		"TransferWithoutNumbersLeft": transferExhausted,
		"TransferRefusesBadInput":    transferBadInput,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := h.New(t)
			tr, ok := b.(locking.Transferrer)
			if !ok {
				t.Fatalf("%T is no locking.Transferrer", b)
			}
			fn(&transferTest{&backendTest{BackendHarness: h, T: t, b: b, resource: h.Unique(t, "transfer")}, tr})
		})
	}
	if !h.Line {
		return
	}
	t.Run("TransferPassesTheLine", func(t *testing.T) {
		t.Parallel()
		transferPassesLine(t, h)
	})
}

func (t *transferTest) transfer(from fencing.Token, r locking.Request) locking.Hold {
	t.Helper()
	h, err := t.tr.Transfer(t.Context(), from, r)
	if err != nil {
		t.Fatalf("Transfer = %v", err)
	}
	if !h.Drawn || h.Token.Grant != r.Grant || h.Remaining <= long/2 || h.Remaining > long {
		t.Fatalf("got %+v, want a fresh hold of the request", h)
	}
	return h
}

func transferGrants(t *transferTest) {
	r := t.request()
	first := t.must(r).Token
	next := t.request()
	next.Label = "next"
	h := t.transfer(first, next)
	t.wantNumber(h, 2)
	if st := t.status(); !st.Held || st.Number != 2 || st.Label != "next" {
		t.Fatalf("got %+v, want the new hold", st)
	}
	t.release(first, false)
	t.wantErr(t.renew(long, first)[0], locking.ErrLost)
	again, err := t.try(next)
	if err != nil || again.Drawn || again.Token != h.Token {
		t.Fatalf("a repeat got %+v, %v, want the same hold, not drawn", again, err)
	}
	t.release(h.Token, true)
	_, err = t.try(next)
	t.wantErr(err, locking.ErrLost)
}

func transferLost(t *transferTest) {
	first := t.must(t.request()).Token
	t.release(first, true)
	_, err := t.tr.Transfer(t.Context(), first, t.request())
	t.wantErr(err, locking.ErrLost)
	if st := t.status(); st.Held || st.Number != 1 {
		t.Fatalf("got %+v, want nothing changed", st)
	}
	r := t.request()
	r.TTL = short
	expired := t.must(r).Token
	t.untilFree()
	_, err = t.tr.Transfer(t.Context(), expired, t.request())
	t.wantErr(err, locking.ErrLost)
	if st := t.status(); st.Held || st.Number != 2 {
		t.Fatalf("got %+v, want nothing changed", st)
	}
}

func transferMatches(t *transferTest) {
	held := t.must(t.request()).Token
	otherNumber, otherGrant := held, held
	otherNumber.Number++
	otherGrant.Grant = fencing.NewGrant()
	for _, from := range []fencing.Token{otherNumber, otherGrant} {
		_, err := t.tr.Transfer(t.Context(), from, t.request())
		t.wantErr(err, locking.ErrLost)
	}
	t.release(held, true)
}

func transferFloor(t *transferTest) {
	first := t.must(t.request()).Token
	r := t.request()
	r.Floor = 100000000000000
	t.wantNumber(t.transfer(first, r), 100000000000001)
}

func transferExhausted(t *transferTest) {
	first := t.must(t.request()).Token
	r := t.request()
	r.Floor = fencing.MaxNumber
	_, err := t.tr.Transfer(t.Context(), first, r)
	t.wantErr(err, locking.ErrExhausted)
	t.release(first, true)
}

func transferBadInput(t *transferTest) {
	first := t.must(t.request()).Token
	same, other, nameless, ttl := t.request(), t.request(), t.request(), t.request()
	same.Grant = first.Grant
	other.Resource = t.Unique(t, "other")
	nameless.Resource = ""
	ttl.TTL = 0
	for _, r := range []locking.Request{same, other, nameless, ttl} {
		_, err := t.tr.Transfer(t.Context(), first, r)
		t.wantErr(err, fencing.ErrInvalid)
	}
	t.release(first, true)
}

func transferPassesLine(tt *testing.T, h BackendHarness) {
	b := h.New(tt)
	bt := &backendTest{BackendHarness: h, T: tt, b: b, resource: h.Unique(tt, "transfer")}
	t := &lineTest{bt, b.(locking.Waiter)}           //nolint:errcheck,forcetypeassert // runLine and runTransfer have looked
	by := &transferTest{bt, b.(locking.Transferrer)} //nolint:errcheck,forcetypeassert // the same
	held, waiting := t.three()
	hold := by.transfer(held, waiting[2])
	t.wait(waiting[0])
	t.release(hold.Token, true)
	t.release(t.now(waiting[0]).Token, true)
	t.release(t.now(waiting[1]).Token, true)
	if st := t.status(); st.Held || st.Waiters != 0 {
		tt.Fatalf("got %+v: the place of the one that was served is left", st)
	}
}
