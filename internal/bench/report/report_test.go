package report_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/internal/bench/report"
)

func sample() *report.Report {
	r := report.New(io.Discard)
	r.Reached(report.Goal{Name: "fast", Unit: "x", Target: 2, Better: report.Higher}, 1, 3, 2.5)
	r.Reached(report.Goal{Name: "small", Unit: "bytes", Target: 96, Better: report.Lower}, 102)
	r.Noted("beside", "ops/s", 12345)
	r.Failed(errors.New("no server"), report.Goal{Name: "far", Target: 1, Better: report.Lower}, report.Goal{Name: "fast"})
	return r
}

// Others read these names.
func TestJSONKeepsItsFormat(t *testing.T) {
	t.Parallel()
	text, err := sample().JSON()
	if err != nil {
		t.Fatal(err)
	}
	var list []map[string]any
	if err := json.Unmarshal(text, &list); err != nil {
		t.Fatal(err)
	}
	if len(list) != 3 {
		t.Fatalf("%d results, want 3", len(list))
	}
	want := []string{"better", "met", "name", "runs", "target", "unit", "value"}
	for i, met := range []bool{true, false, false} {
		if got := slices.Sorted(maps.Keys(list[i])); !slices.Equal(got, want) {
			t.Errorf("result %d has %v, want %v", i, got, want)
		}
		if list[i]["met"] != met {
			t.Errorf("%v: met = %v, want %v", list[i]["name"], list[i]["met"], met)
		}
		if _, ok := list[i]["runs"].([]any); !ok {
			t.Errorf("%v: runs = %v, want a list", list[i]["name"], list[i]["runs"])
		}
	}
	if list[0]["value"] != 2.5 {
		t.Errorf("value = %v, want the median 2.5", list[0]["value"])
	}
}

func TestTableNamesEverything(t *testing.T) {
	t.Parallel()
	table := sample().Table()
	for _, want := range []string{"fast", ">= 2", "met", "small", "<= 96", "not met", "beside", "12345", "far", "no server"} {
		if !strings.Contains(table, want) {
			t.Errorf("the table lacks %q:\n%s", want, table)
		}
	}
}

func TestChartsAreSVG(t *testing.T) {
	t.Parallel()
	r := sample()
	r.Chart(report.Bars{File: "x", Title: "Hand-overs", Unit: "1/s", Bars: []report.Bar{{Label: "ours", Value: 800}, {Label: "none", Kind: report.Peer}}})
	for _, chart := range r.Charts("test") {
		svg, err := chart.SVG()
		if err != nil {
			t.Fatal(err)
		}
		d := xml.NewDecoder(bytes.NewReader(svg))
		for err == nil {
			_, err = d.Token()
		}
		if !errors.Is(err, io.EOF) {
			t.Errorf("%s: %v", chart.File, err)
		}
		if !bytes.Contains(svg, []byte(chart.Bars[0].Label)) {
			t.Errorf("%s does not show %q", chart.File, chart.Bars[0].Label)
		}
	}
}
