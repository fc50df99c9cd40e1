//go:build unix

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"github.com/fencegate/fencegate/internal/testenv"
)

// TestServeStopSendsWaitersAway stops a server on which many wait: each is told to go elsewhere, at
// once, and none of them leaves a lock or a place in line.
func TestServeStopSendsWaitersAway(t *testing.T) {
	t.Parallel()
	redis := testenv.SharedRedis(t).URL()
	args := []string{"--lock", "redis", "--store", "redis", "--redis-url", redis, "--drain-delay", "8s"} // all of it comes before the end of the delay, also on a busy machine
	stopping, staying := startReplica(t, args...), startReplica(t, args...)
	name := testenv.Unique(t, "coupon")
	token := staying.lock(name, `{"ttl": "1m"}`)

	const waiters = 20
	replies := make(chan string, waiters)
	for range waiters {
		go func() {
			a, err := stopping.call("POST", stopping.url+"/v1/resources/"+name+"/lock", `{"ttl": "1m", "wait": "50s"}`)
			replies <- fmt.Sprint(a.status, " ", a.closed, " ", strings.Contains(a.body, "/problems/draining"), " ", err)
		}()
	}
	testenv.Eventually(t, patience, "all to wait", func() bool {
		return strings.Contains(stopping.want(200, "GET", stopping.url+"/metrics", "").body, fmt.Sprintf("fencegate_lock_waiters %d", waiters))
	})
	began := time.Now()
	stopping.signal(syscall.SIGTERM)
	testenv.Eventually(t, patience, "/readyz to say no", func() bool {
		a, err := stopping.call("GET", stopping.url+"/readyz", "")
		return err == nil && a.status == 503
	})
	for range waiters {
		if got, want := <-replies, "503 true true <nil>"; got != want {
			t.Errorf("a waiter got %q, want %q", got, want)
		}
	}
	if late := time.Since(began); late > 40*time.Second { // and not after their wait
		t.Errorf("the waiters were sent away after %v", late)
	}
	// Before the address is closed, whoever comes is sent away, too: with certainty nothing happens.
	testenv.Eventually(t, patience, "requests to be sent away", func() bool {
		a, err := stopping.call("GET", stopping.url+"/v1/locks", "")
		return err == nil && a.status == 503 && a.closed && strings.Contains(a.body, "/problems/draining")
	})
	stopping.wait(exitOK)

	staying.want(200, "DELETE", staying.url+"/v1/resources/"+name+"/lock", "", "Fencing-Token", token)
	if next := staying.lock(name, `{}`); !strings.HasPrefix(next, "2.") {
		t.Errorf("the next token is %.3s, want 2: somebody was granted the lock", next)
	}
	staying.stop()
}

// TestServeStopFinishes stops a server while a commit hangs in its store: it is finished.
func TestServeStopFinishes(t *testing.T) {
	t.Parallel()
	r, hung := hangingCommit(t, "--drain-delay", "0s")
	r.signal(syscall.SIGTERM)
	testenv.Eventually(t, patience, "the address to be closed", func() bool {
		_, err := r.call("GET", r.url+"/livez", "", "Connection", "close")
		return err != nil
	})
	hung.resume()
	if a := <-hung.reply; a.status != 204 {
		t.Errorf("the commit was answered %d %s, want 204", a.status, a.body)
	}
	r.wait(exitOK)
}

// TestServeStopCutsOff gives a stop less time than a commit needs: that is said, and not status 0.
func TestServeStopCutsOff(t *testing.T) {
	t.Parallel()
	r, hung := hangingCommit(t, "--drain-delay", "0s", "--stop-timeout", "200ms")
	r.signal(syscall.SIGTERM)
	if a := <-hung.reply; a.status != 0 {
		t.Errorf("the commit was answered %d", a.status)
	}
	hung.resume()
	r.wait(exitFailed)
	if !strings.Contains(r.log.String(), "1 requests were not finished within --stop-timeout 200ms and were cut off") {
		t.Error("nothing is said of what was cut off")
	}
}

// TestServeStopAdmin stops a server while a request to its admin address is in work: it is finished
// as well, or its end is told.
func TestServeStopAdmin(t *testing.T) {
	t.Parallel()
	begin := func(t *testing.T, args ...string) (*replica, net.Conn, *bufio.Reader) {
		r := startReplica(t, append(args, "--store", "memory", "--drain-delay", "0s", "--admin-listen", "127.0.0.1:0")...)
		r.lock("coupon:42", `{"ttl": "1m"}`)
		addr := strings.TrimPrefix(r.adminURL, "http://")
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		_ = c.SetDeadline(time.Now().Add(patience))
		fmt.Fprintf(c, "POST /v1/resources/coupon:42/lock/evict HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n",
			addr, len(evictOne))
		in := bufio.NewReader(c)
		if line, err := in.ReadString('\n'); err != nil || !strings.Contains(line, "100 Continue") { // it is in work
			t.Fatalf("%q, %v", line, err)
		}
		r.signal(syscall.SIGTERM)
		testenv.Eventually(t, patience, "both addresses to be closed", func() bool {
			_, public := r.call("GET", r.url+"/livez", "", "Connection", "close")
			_, admin := r.call("GET", r.adminURL+"/livez", "", "Connection", "close")
			return public != nil && admin != nil
		})
		return r, c, in
	}
	t.Run("finished", func(t *testing.T) {
		t.Parallel()
		r, c, in := begin(t)
		fmt.Fprint(c, evictOne)
		reply, err := io.ReadAll(in)
		if err != nil || !strings.Contains(string(reply), "204 No Content") {
			t.Errorf("the eviction was answered %q, %v", reply, err)
		}
		r.wait(exitOK)
	})
	t.Run("cut off", func(t *testing.T) {
		t.Parallel()
		r, _, _ := begin(t, "--stop-timeout", "1s")
		r.wait(exitFailed)
		if !strings.Contains(r.log.String(), "1 requests were not finished within --stop-timeout 1s") || !strings.Contains(r.log.String(), `"cut_off":true`) {
			t.Error("nothing is said of what was cut off")
		}
	})
}

const evictOne = `{"number": "1", "reason": "test"}`

// TestServeHangup ends a server without a certificate like SIGTERM does.
func TestServeHangup(t *testing.T) {
	t.Parallel()
	r := startReplica(t, "--store", "memory", "--drain-delay", "0s")
	r.signal(syscall.SIGHUP)
	r.wait(exitOK)
	if !strings.Contains(r.log.String(), `"cut_off":false`) {
		t.Error("it did not end gracefully")
	}
}

// TestServeUnheard ends, properly, a server whose word that it serves reaches nobody.
func TestServeUnheard(t *testing.T) {
	t.Parallel()
	var c serveCmd
	parser, err := kong.New(&c)
	if err != nil {
		t.Fatal(err)
	}
	k, err := parser.Parse(strings.Fields("--store memory --listen 127.0.0.1:0 --drain-delay 0s --output json"))
	if err != nil {
		t.Fatal(err)
	}
	read, write := io.Pipe()
	read.Close()
	var log growing
	err = c.Run(t.Context(), k, stdio{in: strings.NewReader(""), out: write, err: &log})
	if !errors.Is(err, io.ErrClosedPipe) || !strings.Contains(log.String(), `"msg":"stopped"`) {
		t.Errorf("it ended with %v:\n%s", err, log.String())
	}
}

// TestServeSecondSignal ends a server that is draining.
func TestServeSecondSignal(t *testing.T) {
	t.Parallel()
	r := startReplica(t, "--store", "memory", "--drain-delay", "10m")
	r.signal(syscall.SIGINT)
	testenv.Eventually(t, patience, "the stop to begin", func() bool { return strings.Contains(r.log.String(), `"msg":"stopping"`) })
	r.want(200, "GET", r.url+"/livez", "")
	r.signal(syscall.SIGINT)
	r.wait(-1) // by the signal
}

type hanging struct {
	reply  chan answer
	resume func()
}

// hangingCommit returns a server that works on a commit which its Redis does not answer.
func hangingCommit(t *testing.T, args ...string) (*replica, hanging) {
	t.Helper()
	redis := testenv.StartRedis(t, nil)
	r := startReplica(t, append([]string{"--store", "redis", "--redis-url", redis.URL() + "?read_timeout=50s"}, args...)...)
	token := r.lock("coupon:42", `{"ttl": "1m"}`)
	redis.Pause()
	h := hanging{make(chan answer, 1), redis.Resume}
	go func() {
		a, err := r.call("PUT", r.url+"/v1/resources/coupon:42/records/left", "10", "Fencing-Token", token)
		if err != nil {
			a = answer{body: err.Error()}
		}
		h.reply <- a
	}()
	testenv.Eventually(t, patience, "the commit to be under way", func() bool {
		return strings.Contains(r.want(200, "GET", r.url+"/metrics", "").body, "fencegate_http_requests_in_flight 1")
	})
	return r, h
}
