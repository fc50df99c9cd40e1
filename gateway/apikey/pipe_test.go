//go:build unix

package apikey_test

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fencegate/fencegate/gateway/apikey"
)

// TestPipe: a pipe in the file's place is not waited for.
func TestPipe(t *testing.T) {
	t.Parallel()
	path := newFile(t)
	_, text := add(t, path, apikey.Entry{})
	told := make(chan error, 1)
	f := open(t, path, &apikey.Options{OnTrouble: func(err error) { told <- err }})
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	deadline := time.After(30 * time.Second)
	for len(told) == 0 { // it looks once a second
		found := make(chan bool, 1)
		go func() { found <- has(f, text) }()
		select {
		case ok := <-found:
			if !ok {
				t.Fatal("the key that was read before is gone")
			}
		case <-deadline:
			t.Fatal("it waits for who writes to the pipe")
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err := <-told; !strings.Contains(err.Error(), "no regular file") {
		t.Errorf("told %v", err)
	}
	if _, err := apikey.List(path); err == nil || !strings.Contains(err.Error(), "no regular file") {
		t.Errorf("got %v", err)
	}
}
