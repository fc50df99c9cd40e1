package storagetest

import (
	"fmt"
	"strings"

	"pgregory.net/rapid"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/storage"
)

// step is one random action. It is symbolic, so that one sequence runs on any store and
// shrinks well: resources and keys are indexes, tokens and versions may be "the current".
type step struct {
	Do     string // skip, raise, retire, evict, commit, again, read, get, list
	Token  symbol
	More   []symbol // commit: the other tokens
	Key    int      // read, get
	Ops    []symbolicOp
	Once   string // commit: its idempotency key
	Back   int    // again: which of the commits with a key, counted from the last one
	Prefix string // list
	After  string
	Limit  int
}

// symbol stands for a token.
type symbol struct {
	Resource int
	Is       string // current, twin, last, next: as the resource's mark is now; else as below
	Number   int64
	Grant    int // an index of grants
}

type symbolicOp struct {
	Kind     storage.Kind
	Resource int
	Key      int
	Value    string
	Delta    int64
	Min      int64
	Current  bool // require: the record's version now, plus Version
	Version  int64
}

// Few names and numbers, so that random steps meet.
var (
	stepKeys   = []string{"a", "a_", "aB", "b"}
	stepGrants = []string{strings.Repeat("A", fencing.GrantLen), strings.Repeat("B", fencing.GrantLen), ""}
	stepValues = []string{
		"1", "", "0", "7", "-3", "x", "01", "-0", "a\x00\xff", "9007199254740991", "-9007199254740991", "9007199254740990",
		"9007199254740992", "99999999999999", "100000000000000",
	}
	stepDeltas = []int64{
		0, 1, -1, 5, -5, 1, 100000000000000, storage.MaxCounter, -storage.MaxCounter, storage.MaxCounter + 1, -storage.MaxCounter + 1,
	}
	stepMinimums = []int64{storage.NoMinimum, 0, storage.NoMinimum, -3, 5, storage.MaxCounter}
)

const stepResources = 3

// stepsGen makes sequences that are long enough for something to happen: most begin with
// a raise of every resource. They shrink to skips.
func stepsGen() *rapid.Generator[[]step] {
	return rapid.Custom(func(t *rapid.T) []step {
		var steps []step
		for i := range stepResources {
			if rapid.IntRange(0, 4).Draw(t, "raise at once") > 0 {
				steps = append(steps, step{Do: "raise", Token: symbol{Resource: i, Number: 2}})
			}
		}
		return append(steps, rapid.SliceOfN(rapid.Custom(drawStep), 30, 50).Draw(t, "steps")...)
	})
}

func drawStep(t *rapid.T) step {
	s := step{
		Do: rapid.SampledFrom([]string{
			"skip", "commit", "commit", "commit", "commit", "commit", "commit", "commit", "commit", "commit", "commit",
			"again", "again", "raise", "raise", "raise", "read", "get", "list", "list", "retire", "evict",
		}).Draw(t, "do"),
	}
	switch s.Do {
	case "commit":
		s.Token = drawSymbol(t, "current", 9)
		s.Ops = rapid.SliceOfN(rapid.Custom(drawOp), 1, 3).Draw(t, "ops")
		// Most commits bring exactly the tokens that they need.
		have := map[int]bool{s.Token.Resource: true}
		for _, op := range s.Ops {
			if !have[op.Resource] && rapid.IntRange(0, 15).Draw(t, "forget") != 15 {
				more := drawSymbol(t, "current", 9)
				more.Resource = op.Resource
				s.More = append(s.More, more)
				have[op.Resource] = true
			}
		}
		if rapid.IntRange(0, 7).Draw(t, "another") == 7 {
			s.More = append(s.More, drawSymbol(t, "current", 9))
		}
		s.Once = rapid.SampledFrom([]string{"", "", "", "", "", "", "", "k", "k2", "K"}).Draw(t, "once")
	case "again":
		s.Token = drawSymbol(t, "current", 7)
		s.Back = rapid.SampledFrom([]int{0, 0, 1, 2}).Draw(t, "back")
	case "raise":
		s.Token = drawSymbol(t, "next", 7)
	case "retire", "evict":
		s.Token = drawSymbol(t, "current", 5)
	case "read":
		s.Token = drawSymbol(t, "current", 7)
		s.Key = drawKey(t)
	case "get":
		s.Token.Resource = drawResource(t)
		s.Key = drawKey(t)
	case "list":
		s.Token.Resource = drawResource(t)
		s.Prefix = rapid.SampledFrom([]string{"", "a", "a_", "aB", "c"}).Draw(t, "prefix")
		s.After = rapid.SampledFrom([]string{"", "a", "aA", "a_", "b"}).Draw(t, "after")
		s.Limit = rapid.SampledFrom([]int{1, 1, 2, 1000}).Draw(t, "limit")
	}
	return s
}

// drawSymbol makes a token, which that many times in twelve is what the caller wants.
func drawSymbol(t *rapid.T, is string, often int) symbol {
	s := symbol{
		Resource: drawResource(t),
		Number:   rapid.SampledFrom([]int64{1, 2, 3, 4, 5, 6, 100000000000000}).Draw(t, "number"),
		Grant:    rapid.SampledFrom([]int{0, 0, 0, 1, 1, 2}).Draw(t, "grant"),
	}
	switch n := rapid.IntRange(1, 12).Draw(t, "is"); {
	case n <= often:
		s.Is = is
	case n == 10:
		s.Is = "twin" // the mark's number, and perhaps another grant
	case n == 11:
		s.Is = "last"
	}
	return s
}

func drawResource(t *rapid.T) int {
	return rapid.SampledFrom([]int{0, 0, 0, 1, 1, 2}).Draw(t, "resource")
}

func drawKey(t *rapid.T) int { return rapid.SampledFrom([]int{0, 0, 1, 1, 2, 3}).Draw(t, "key") }

func drawOp(t *rapid.T) symbolicOp {
	op := symbolicOp{
		Kind: rapid.SampledFrom([]storage.Kind{
			storage.KindPut, storage.KindPut, storage.KindPut, storage.KindAdd, storage.KindAdd, storage.KindDelete, storage.KindDelete,
			storage.KindRequire,
		}).Draw(t, "kind"),
		Resource: drawResource(t),
		Key:      drawKey(t),
	}
	switch op.Kind {
	case storage.KindPut:
		op.Value = rapid.SampledFrom(stepValues).Draw(t, "value")
	case storage.KindAdd:
		op.Delta = rapid.SampledFrom(stepDeltas).Draw(t, "delta")
		op.Min = rapid.SampledFrom(stepMinimums).Draw(t, "minimum")
	case storage.KindRequire:
		op.Current = rapid.IntRange(0, 3).Draw(t, "current") != 3
		op.Version = rapid.SampledFrom([]int64{0, 0, 0, 1, 2, 5}).Draw(t, "version")
	case storage.KindDelete:
	}
	return op
}

// String shows a step in one line.
func (s step) String() string {
	switch s.Do {
	case "skip":
		return "skip"
	case "commit":
		return fmt.Sprintf("commit %+v with %+v under the key %q", s.Ops, append([]symbol{s.Token}, s.More...), s.Once)
	case "again":
		return fmt.Sprintf("again the commit %d before the last one with a key, with %+v", s.Back, s.Token)
	case "list":
		return fmt.Sprintf("list %d prefix %q after %q limit %d", s.Token.Resource, s.Prefix, s.After, s.Limit)
	case "get", "read":
		return fmt.Sprintf("%s %s with %+v", s.Do, stepKeys[s.Key], s.Token)
	}
	return fmt.Sprintf("%s %+v", s.Do, s.Token)
}
