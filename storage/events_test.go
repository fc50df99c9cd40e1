package storage_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/storage"
)

// log is an OnEvent that keeps what it is told.
type log struct {
	mu     sync.Mutex // guards events
	events []fencing.Event
}

func (l *log) add(e fencing.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, e)
}

// taken returns the events since the last time, in short.
func (l *log) taken(t *testing.T) []string {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	var list []string
	for _, e := range l.events {
		if e.Time.IsZero() || e.Elapsed < 0 {
			t.Errorf("got the time %v, elapsed %v", e.Time, e.Elapsed)
		}
		if text := fmt.Sprintf("%+v", e); strings.Contains(text, grantA) {
			t.Errorf("the event shows the grant id: %s", text)
		}
		list = append(list, strings.TrimSpace(fmt.Sprintf("%s %s#%d of %d %s", e.Kind, e.Resource, e.Number, e.Highest, e.Reason)))
	}
	l.events = nil
	return list
}

func TestEvents(t *testing.T) {
	t.Parallel()
	l := &log{}
	s, b := open(t, &storage.Options{OnEvent: l.add})
	ctx := t.Context()
	cause := errors.New("connection reset")
	r, old, plain := token("r", 34), token("r", 33), fencing.Token{Resource: "r", Number: 34}
	other := token("other", 2)
	for _, c := range []struct {
		what string
		do   func() error
		want []string
	}{
		{"raise", func() error { return s.Raise(ctx, r) }, []string{"raised r#34 of 0"}},
		{"raise the old one", func() error { return s.Raise(ctx, old) }, []string{"refused r#33 of 34 superseded"}},
		{"raise a plain one", func() error { return s.Raise(ctx, plain) }, []string{"refused r#34 of 34 grant-required"}},
		{"put", func() error { _, err := s.Put(ctx, r, "a", []byte("1")); return err }, []string{"applied r#34 of 0"}},
		{"put with the old one", func() error { _, err := s.Put(ctx, old, "a", nil); return err }, []string{"refused r#33 of 34 superseded"}},
		{"read", func() error { _, err := s.GetFenced(ctx, r, "a"); return err }, []string{"read r#34 of 0"}},
		{"read nothing", func() error { _, err := s.GetFenced(ctx, r, "none"); return err }, []string{"read r#34 of 0"}},
		{"read with the old one", func() error { _, err := s.GetFenced(ctx, old, "a"); return err }, []string{"refused r#33 of 34 superseded"}},
		{"refused by the data", func() error {
			_, err := s.Commit(ctx, storage.Commit{Tokens: []fencing.Token{r}, Ops: []storage.Op{storage.Add("r", "a", -2, 0)}})
			return err
		}, []string{"refused r#34 of 0 operation 0 on r/a refused: the counter is 1 and would fall below 0"}},
		{"raise another", func() error { return s.Raise(ctx, other) }, []string{"raised other#2 of 0"}},
		{"commit of both", func() error {
			_, err := s.Commit(ctx, storage.Commit{Tokens: []fencing.Token{r, other}, Ops: []storage.Op{storage.Put("r", "a", nil)}})
			return err
		}, []string{"applied other#2 of 0", "applied r#34 of 0"}},
		{"plain reads", func() error {
			_, err := s.Get(ctx, "r", "a")
			_, listErr := s.List(ctx, "r", "", "", 1)
			_, markErr := s.Mark(ctx, "r")
			return errors.Join(err, listErr, markErr)
		}, nil},
		{"invalid", func() error { _, err := s.Put(ctx, r, "", nil); return err }, nil},
		{"with a key", func() error {
			_, err := s.Commit(ctx, storage.Commit{Tokens: []fencing.Token{r}, Ops: []storage.Op{storage.Put("r", "k", nil)}, Key: "once"})
			return err
		}, []string{"applied r#34 of 0"}},
		{"raise over it", func() error { return s.Raise(ctx, token("r", 35)) }, []string{"raised r#35 of 0"}},
		{"with the key again", func() error { // applied under 34, which is not the mark any more
			_, err := s.Commit(ctx, storage.Commit{Tokens: []fencing.Token{r}, Ops: []storage.Op{storage.Put("r", "k", nil)}, Key: "once"})
			return err
		}, []string{"replayed r#34 of 0"}},
		{"unknown", func() error {
			b.fail = cause
			_, err := s.Put(ctx, r, "a", nil)
			return err
		}, []string{"unknown r#34 of 0 connection reset"}},
		{"failed", func() error {
			b.fail = fencing.AsFailed(cause)
			_, err := s.GetFenced(ctx, r, "a")
			return err
		}, []string{"failed r#34 of 0 connection reset"}},
	} {
		err := c.do()
		if got := l.taken(t); !slices.Equal(got, c.want) {
			t.Errorf("%s (%v): got %q, want %q", c.what, err, got, c.want)
		}
	}
}
