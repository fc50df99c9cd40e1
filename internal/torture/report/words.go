package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/fencegate/fencegate/internal/torture/history"
)

// count is a number with commas.
func count(n int) string { return humanize.Comma(int64(n)) }

// span is a duration as people read it: "12 ms", "1.24 s", "2m10s".
func span(d time.Duration) string {
	switch {
	case d < 0:
		return "-" + span(-d)
	case d < time.Millisecond:
		return strconv.FormatInt(d.Microseconds(), 10) + " µs"
	case d < time.Second:
		return strconv.FormatInt(d.Round(time.Millisecond).Milliseconds(), 10) + " ms"
	case d < time.Minute:
		return trimmed(d.Seconds(), 2) + " s"
	}
	return d.Round(time.Second).String()
}

// seconds is a time on a run's axis.
func seconds(d time.Duration) string { return fmt.Sprintf("%.3f s", d.Seconds()) }

// trimmed formats f with at most so many digits behind the point.
func trimmed(f float64, digits int) string {
	s := strconv.FormatFloat(f, 'f', digits, 64)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}

// quantile is the nearest-rank quantile of durations, 0 without any. It sorts them.
func quantile(d []time.Duration, q float64) time.Duration {
	if len(d) == 0 {
		return 0
	}
	slices.Sort(d)
	rank := int(q*float64(len(d))+0.9999999) - 1
	return d[min(max(rank, 0), len(d)-1)]
}

// headline is a verdict in words.
func headline(r Run) string {
	switch r.Verdict {
	case Held:
		return "No acknowledged write was lost, and no stale one was accepted."
	case Violated:
		return plural(max(len(r.Violations), 1), "promise") + " " + were(max(len(r.Violations), 1)) + " broken."
	}
	return "This run shows nothing."
}

func were(n int) string {
	if n == 1 {
		return "was"
	}
	return "were"
}

// kindsOf counts the faults that were made, by name: "redis-kill 3, client-stop 2".
func kindsOf(faults []history.Fault) string {
	made := map[string]int{}
	for _, f := range faults {
		if f.Void == "" {
			made[f.Name]++
		}
	}
	names := make([]string, 0, len(made))
	for name := range made {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(made[b], made[a]), cmp.Compare(a, b))
	})
	for i, name := range names {
		names[i] = name + " " + count(made[name])
	}
	return strings.Join(names, ", ")
}

// doing says what a call was: "put value = 3 c1-7; add stock -1, at least 0".
func doing(o history.Op) string {
	var parts []string
	for _, w := range o.Writes {
		switch w.Kind {
		case "add":
			parts = append(parts, fmt.Sprintf("add %s/%s %+d, at least %d", w.Resource, w.Key, w.Delta, w.Min))
		case "delete":
			parts = append(parts, fmt.Sprintf("delete %s/%s", w.Resource, w.Key))
		default:
			parts = append(parts, fmt.Sprintf("%s %s/%s = %s", w.Kind, w.Resource, w.Key, w.Value))
		}
	}
	if o.Kind == history.Read {
		for _, c := range o.Cells {
			parts = append(parts, c.Resource+"/"+c.Key)
		}
	}
	s := strings.Join(parts, "; ")
	for _, mark := range []struct {
		is   bool
		word string
	}{
		{o.Forged, "with a forged token"}, {o.Replayed, "with a replayed token"}, {o.Once, "as a one-call commit"}, {o.Key != "", "key " + o.Key},
	} {
		if mark.is {
			s = strings.TrimPrefix(s+" ("+mark.word+")", " ")
		}
	}
	return s
}

// answered says what came back: values, versions, sums.
func answered(o history.Op) string {
	if o.Return == 0 {
		return "no answer"
	}
	var parts []string
	if o.Kind == history.Read {
		for _, c := range o.Cells {
			if c.Version == 0 && c.Value == "" {
				parts = append(parts, "no such record")
				continue
			}
			parts = append(parts, fmt.Sprintf("%s (version %d)", c.Value, c.Version))
		}
	}
	for _, w := range o.Writes {
		switch {
		case w.Kind == "add" && w.Version != 0:
			parts = append(parts, fmt.Sprintf("sum %d (version %d)", w.Counter, w.Version))
		case w.Version != 0:
			parts = append(parts, fmt.Sprintf("version %d", w.Version))
		}
	}
	if o.Kind == history.Release && o.Outcome == "applied" {
		parts = append(parts, fmt.Sprintf("freed: %t", o.Freed))
	}
	if o.Error != "" {
		parts = append(parts, o.Error)
	}
	return strings.Join(parts, "; ")
}

// numbers are the numbers of a call's tokens, with their grants' fingerprints.
func numbers(o history.Op) string {
	parts := make([]string, len(o.Tokens))
	for i, t := range o.Tokens {
		parts[i] = strconv.FormatInt(t.Number, 10)
		if t.Grant != "" {
			parts[i] += " · " + t.Grant
		}
	}
	return strings.Join(parts, "; ")
}

// outcome is a call's outcome and its reason.
func outcome(o history.Op) string {
	s := cmp.Or(o.Outcome, "unknown")
	if o.Reason != "" {
		s += ": " + o.Reason
	}
	return s
}
