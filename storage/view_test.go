package storage_test

import (
	"reflect"
	"testing"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/storage"
)

// TestViewApply judges commits one after the other, each by what those before it left.
func TestViewApply(t *testing.T) {
	t.Parallel()
	tok := fencing.Token{Resource: "r", Number: 1, Grant: fencing.NewGrant()}
	v := storage.View{
		Marks:   map[string]fencing.Mark{"r": {Number: 1, Grant: tok.Grant}},
		Bases:   map[string]int64{"r": 0},
		Records: map[storage.RecordID]storage.Record{{Resource: "r", Key: "old"}: {Resource: "r", Key: "old", Value: []byte("4"), Version: 7}},
	}
	for i, c := range []struct {
		op   storage.Op
		want storage.OpResult
	}{
		{storage.Add("r", "old", 1, 0), storage.OpResult{Version: 8, Counter: 5}},
		{storage.Require("r", "old", 8), storage.OpResult{Version: 8}},
		{storage.Delete("r", "old"), storage.OpResult{}},
		{storage.Require("r", "old", 0), storage.OpResult{}},
		{storage.Put("r", "old", []byte("x")), storage.OpResult{Version: 9}},
		{storage.Put("r", "new", []byte("y")), storage.OpResult{Version: 9}},
	} {
		res, ch, err := storage.Evaluate(storage.Commit{Tokens: []fencing.Token{tok}, Ops: []storage.Op{c.op}}, v)
		if err != nil || res.Ops[0] != c.want {
			t.Fatalf("commit %d: got %+v, %v, want %+v", i, res.Ops, err, c.want)
		}
		v.Apply(ch)
	}
	want := map[storage.RecordID]storage.Record{
		{Resource: "r", Key: "old"}: {Resource: "r", Key: "old", Value: []byte("x"), Version: 9},
		{Resource: "r", Key: "new"}: {Resource: "r", Key: "new", Value: []byte("y"), Version: 9},
	}
	if !reflect.DeepEqual(v.Records, want) || v.Bases["r"] != 8 {
		t.Errorf("got %+v over %d, want %+v over 8", v.Records, v.Bases["r"], want)
	}
}
