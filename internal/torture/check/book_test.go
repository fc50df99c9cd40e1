package check_test

import (
	"fmt"
	"slices"

	"github.com/fencegate/fencegate/internal/torture/history"
)

// book writes a history turn by turn, one after another: all of it is right. Tests change it then.
// Op ids are <workload>.<turn>.<acquire, read0, read1, commit or release>; every call takes a
// millisecond, and so does the time between two.
type book struct {
	history.History
	now  int64
	data map[[2]string]rec
	nth  map[string]int64
}

func newBook() *book {
	b := &book{data: make(map[[2]string]rec), nth: make(map[string]int64)}
	for _, c := range []history.Cell{
		{Resource: "register", Key: "value", Value: "0 seed", Version: 1},
		{Resource: "bank", Key: "balance", Value: "500", Version: 1},
		{Resource: "bank-b", Key: "balance", Value: "500", Version: 1},
		{Resource: "coupon", Key: "stock", Value: "1000", Version: 1},
		{Resource: "log", Key: "length", Value: "0", Version: 1},
		{Resource: "table", Key: "row", Value: "0 seed", Version: 1},
	} {
		b.Initial = append(b.Initial, c)
		b.data[[2]string{c.Resource, c.Key}] = rec{value: c.Value, version: c.Version}
	}
	return b
}

// good is three turns of every workload.
func good() *book {
	b := newBook()
	for range 3 {
		for _, w := range workloads {
			b.turn(w)
		}
	}
	return b.end()
}

// end reads what is there.
func (b *book) end() *book {
	b.Final = nil
	for id, r := range b.data {
		b.Final = append(b.Final, history.Cell{Resource: id[0], Key: id[1], Value: r.value, Version: r.version})
	}
	b.FinalRead, b.Direct = true, true
	b.Ended = b.now + 100*ms
	return b
}

func (b *book) add(op history.Op) *history.Op {
	b.now += 2 * ms
	op.Call, op.Return = b.now-ms, b.now
	if op.Outcome == "" {
		op.Outcome = "applied"
	}
	b.Ops = append(b.Ops, op)
	return &b.Ops[len(b.Ops)-1]
}

// op finds a call.
func (b *book) op(id string) *history.Op {
	i := slices.IndexFunc(b.Ops, func(op history.Op) bool { return op.ID == id })
	if i < 0 {
		panic("no call " + id)
	}
	return &b.Ops[i]
}

// last finds a record in what was there in the end.
func (b *book) last(resource, key string) *history.Cell {
	i := slices.IndexFunc(b.Final, func(c history.Cell) bool { return c.Resource == resource && c.Key == key })
	if i < 0 {
		panic("no record " + key)
	}
	return &b.Final[i]
}

func (b *book) lose(resource, key string) {
	b.Final = slices.DeleteFunc(b.Final, func(c history.Cell) bool { return c.Resource == resource && c.Key == key })
}

// tokens returns those of a turn.
func tokens(w string, n int64) []history.Token {
	all := []history.Token{{Resource: w, Number: n, Grant: fmt.Sprintf("%s%d", w, n)}}
	if w == "bank" {
		all = append(all, history.Token{Resource: "bank-b", Number: n, Grant: fmt.Sprintf("bankb%d", n)})
	}
	return all
}

// turn takes a turn of a workload.
func (b *book) turn(w string) {
	b.nth[w]++
	n := b.nth[w]
	id := fmt.Sprintf("%s.%d.", w, n)
	op := history.Op{Process: int(n), Workload: w, Group: w, Tokens: tokens(w, n)}
	call := func(kind history.Kind, name string) *history.Op {
		op.ID, op.Kind, op.Tokens = id+name, kind, slices.Clone(op.Tokens)
		return b.add(op)
	}
	call(history.Acquire, "acquire").Until = b.now + ttl
	var cells []history.Cell
	read := func(resource, key string) int64 {
		r := b.data[[2]string{resource, key}]
		c := history.Cell{Resource: resource, Key: key, Value: r.value, Version: r.version}
		if w != "table" {
			op := call(history.Read, fmt.Sprintf("read%d", len(cells)))
			op.Cells = []history.Cell{c}
			op.Tokens = op.Tokens[len(op.Tokens)-1:]
			if resource == w {
				op.Tokens = tokens(w, n)[:1]
			}
		}
		cells = append(cells, c)
		return leading(r.value)
	}
	me := id + "commit"
	var writes []history.Write
	switch w {
	case "register":
		writes = []history.Write{put(w, "value", fmt.Sprintf("%d %s", read(w, "value")+1, me))}
	case "bank":
		x, y := read(w, "balance"), read("bank-b", "balance")
		writes = []history.Write{put(w, "balance", fmt.Sprint(x-n)), put("bank-b", "balance", fmt.Sprint(y+n))}
	case "set":
		writes = []history.Write{put(w, "e."+me, me)}
	case "coupon":
		op.Key = me
		writes = []history.Write{{Kind: "add", Resource: w, Key: "stock", Delta: -1}, put(w, "receipt."+me, me)}
	case "task":
		read(w, "left")
		read(w, "right")
		writes = []history.Write{put(w, "left", me), put(w, "right", me)}
	case "log":
		at := read(w, "length") + 1
		writes = []history.Write{put(w, "length", fmt.Sprint(at)), put(w, fmt.Sprintf("entry.%08d", at), fmt.Sprintf("%d %s %s", n, op.Tokens[0].Grant, me))}
	case "table":
		writes = []history.Write{put(w, "row", fmt.Sprintf("%d %s", read(w, "row")+1, me)), put(w, fmt.Sprintf("audit.%08d", n), fmt.Sprintf("%d %s", n, me))}
	}
	for i := range writes {
		id := [2]string{writes[i].Resource, writes[i].Key}
		r := rec{value: writes[i].Value, version: b.data[id].version + 1}
		if writes[i].Kind == "add" {
			writes[i].Counter = leading(b.data[id].value) + writes[i].Delta
			r.value = fmt.Sprint(writes[i].Counter)
		}
		writes[i].Version = r.version
		b.data[id] = r
	}
	c := call(history.Commit, "commit")
	c.Cells, c.Writes = cells, writes
	op.Key = ""
	rel := call(history.Release, "release")
	rel.Until, rel.Freed = rel.Call, true
}
