package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// etcd speaks etcd's own JSON API, 3.4 or later, which needs no client library. Integers of 64
// bits are strings in it, and bytes are base64, as encoding/json writes a []byte.
type etcd struct {
	url   string // http://127.0.0.1:2379
	about string // what it is, for people
}

func (e *etcd) String() string { return e.about + " at " + e.url }

// lock takes etcd's lock: a lease, and a key that goes with it. The number is the key's create
// revision. etcd draws it when the key gets in line, and grants in the order of the line, so it
// grows from grant to grant; and since every change in etcd has a revision of its own, it never
// comes again, whatever the key.
//
// The lease is kept alive while this waits, and not after: a holder that works for longer than
// ttl would go on with that.
func (e *etcd) lock(ctx context.Context, name string, ttl time.Duration) (grant, error) {
	var lease struct {
		ID int64 `json:"ID,string"`
	}
	seconds := int64((ttl + time.Second - 1) / time.Second)
	if err := e.call(ctx, "/v3/lease/grant", map[string]any{"TTL": seconds}, &lease); err != nil {
		return grant{}, err
	}
	g := grant{unlock: func(ctx context.Context) error { // the key goes with its lease
		return e.call(context.WithoutCancel(ctx), "/v3/lease/revoke", map[string]any{"ID": lease.ID}, nil)
	}}
	var locked struct {
		Key []byte `json:"key"`
	}
	stop := e.keepAlive(ctx, lease.ID, ttl/3)
	err := e.call(ctx, "/v3/lock/lock", map[string]any{"name": []byte(name), "lease": lease.ID}, &locked)
	stop()
	if err != nil {
		return g, errors.Join(err, g.unlock(ctx))
	}
	var found struct {
		KVs []struct {
			CreateRevision int64 `json:"create_revision,string"`
		} `json:"kvs"`
	}
	if err := e.call(ctx, "/v3/kv/range", map[string]any{"key": locked.Key}, &found); err != nil {
		return g, errors.Join(err, g.unlock(ctx))
	}
	if len(found.KVs) != 1 {
		return g, errors.New("etcd: the lock had ended before its revision was read")
	}
	g.number = found.KVs[0].CreateRevision
	return g, nil
}

// keepAlive renews a lease now and again until it is stopped.
func (e *etcd) keepAlive(ctx context.Context, id int64, every time.Duration) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C: // where this fails, the lease runs out, and lock says so
				_ = e.call(ctx, "/v3/lease/keepalive", map[string]any{"ID": id}, nil)
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// call posts in to etcd and reads its answer into out, which may be nil.
func (e *etcd) call(ctx context.Context, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	return send(ctx, http.MethodPost, e.url+path, body, out)
}

// send sends a request and reads a JSON answer.
func send(ctx context.Context, method, url string, body []byte, out any) error {
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	reply, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", url, err)
	case resp.StatusCode != http.StatusOK:
		return &statusError{url: url, status: resp.StatusCode, text: string(bytes.TrimSpace(reply))}
	case out == nil:
		return nil
	}
	if err := json.Unmarshal(reply, out); err != nil {
		return fmt.Errorf("%s answered %q: %w", url, reply, err)
	}
	return nil
}

// statusError is an answer that is not 200.
type statusError struct {
	url    string
	status int
	text   string
}

func (e *statusError) Error() string { return fmt.Sprintf("%s: %d %s", e.url, e.status, e.text) }
