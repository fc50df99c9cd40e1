package client

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync"

	"github.com/fencegate/fencegate/internal/torture/history"
)

// recorder writes lines, each in one piece, before write returns: what was written there stays known when
// the process is killed. It is safe for concurrent use.
type recorder struct {
	broken context.CancelCauseFunc // called when nobody reads any more

	mu     sync.Mutex // guards what follows, and is held while a line is written
	out    io.Writer
	failed error
}

func (r *recorder) write(l history.Line) {
	text, err := json.Marshal(l)
	if err != nil {
		panic(err) // text, numbers and booleans only
	}
	text = append(text, '\n')
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed != nil {
		return
	}
	if _, err := r.out.Write(text); err != nil {
		r.failed = fmt.Errorf("write a line: %w", err)
		r.broken(r.failed)
	}
}

func (r *recorder) leak(what, where string, count int, text string) {
	r.write(history.Line{Leak: &history.Leak{What: what, Where: where, Count: count, Text: text}})
}

func (r *recorder) err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}
