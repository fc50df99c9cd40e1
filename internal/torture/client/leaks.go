package client

import (
	"bytes"
	"maps"
	"runtime"
	"slices"
	"strings"
	"time"
)

const (
	settling  = 3 * time.Second // for what is winding up
	maxStacks = 4000            // bytes of stacks that are written down
)

// goroutines returns the stacks of all goroutines but the caller's, by their ids.
func goroutines() map[string]string {
	buf := make([]byte, 1<<20)
	for {
		n := runtime.Stack(buf, true)
		if n < len(buf) {
			buf = buf[:n]
			break
		}
		buf = make([]byte, 2*len(buf))
	}
	all := map[string]string{}
	for i, stack := range bytes.Split(buf, []byte("\n\n")) {
		id, ok := bytes.CutPrefix(stack, []byte("goroutine "))
		if i == 0 || !ok { // the first is the caller's
			continue
		}
		id, _, _ = bytes.Cut(id, []byte(" "))
		all[string(id)] = string(stack)
	}
	return all
}

// settled waits until no goroutines are left that were not there before, and returns those that stay.
func settled(before map[string]string) map[string]string {
	end := time.Now().Add(settling)
	for {
		now := goroutines()
		maps.DeleteFunc(now, func(id, stack string) bool {
			_, old := before[id]
			return old || strings.Contains(stack, "client.serve.func") && strings.Contains(stack, "io.Copy") // reads the input
		})
		if len(now) == 0 || time.Now().After(end) {
			return now
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// stacks is the text of goroutines without those of before.
func stacks(all, before map[string]string) string {
	var list []string
	for _, id := range slices.Sorted(maps.Keys(all)) {
		if _, old := before[id]; !old {
			list = append(list, all[id])
		}
	}
	return strings.Join(list, "\n\n")
}

func shorten(text string) string {
	if len(text) > maxStacks {
		text = strings.ToValidUTF8(text[:maxStacks], "") + " ..."
	}
	return text
}
