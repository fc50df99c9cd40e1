package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	mrand "math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

func newKey() string { return strings.ToLower(rand.Text()) }

// buyers are the clients of the load, and what they were told.
type buyers struct {
	coupon coupon
	urls   []string
	client *http.Client

	mu    sync.Mutex // guards told
	told  tally
	stock []receipt // sold, and may be returned
}

// tally is what the clients were told. What they know nothing of is open.
type tally struct {
	sold     map[string]receipt // by key
	returned map[string]bool    // by the receipt's id
	soldOut  int
	repeated int             // requests that were sent again, no answer having come
	twice    []string        // keys with two receipts
	open     map[string]bool // keys without an answer, to the end
	openBack map[string]bool // returns without an answer: receipts' ids
}

// newBuyers returns clients that wait for an answer for two lease times, and then ask another server.
func newBuyers(c coupon, urls []string, ttl time.Duration) *buyers {
	return &buyers{
		coupon: c, urls: urls,
		client: &http.Client{Timeout: 2*ttl + time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 256}},
		told:   tally{sold: map[string]receipt{}, returned: map[string]bool{}, open: map[string]bool{}, openBack: map[string]bool{}},
	}
}

func (b *buyers) close() { b.client.CloseIdleConnections() }

func (b *buyers) path(rest string) string { return "/coupons/" + b.coupon.ID + rest }

func (b *buyers) create(ctx context.Context) error {
	status, body, err := b.send(ctx, b.urls[0], http.MethodPost, "/coupons", "", encode(b.coupon))
	if err != nil || status != http.StatusCreated {
		return fmt.Errorf("creating the coupon: status %d %s: %w", status, body, err)
	}
	return nil
}

// buy lets n clients buy and return until ctx ends, and then until each of them knows what came of
// its last request.
func (b *buyers) buy(ctx context.Context, n int) {
	settling, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Until(deadline(ctx))+workTime)
	defer cancel()
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			for ctx.Err() == nil {
				if sold := b.buyOne(settling); !sold || mrand.IntN(8) == 0 {
					if !b.returnOne(settling) {
						pause(ctx, 10*time.Millisecond)
					}
				}
			}
		})
	}
	all.Wait()
}

func deadline(ctx context.Context) time.Time {
	t, _ := ctx.Deadline()
	return t
}

// buyOne claims under a new key, again and again under the same one until there is an answer.
func (b *buyers) buyOne(ctx context.Context) (sold bool) {
	key := newKey()
	way := "/claim"
	if mrand.IntN(4) == 0 {
		way = "/claim-now"
	}
	status, body, ok := b.insist(ctx, b.path(way), key)
	b.mu.Lock()
	defer b.mu.Unlock()
	var r receipt
	switch {
	case !ok:
		b.told.open[key] = true
	case status == http.StatusConflict:
		b.told.soldOut++
	case json.Unmarshal(body, &r) == nil && r.Key == key:
		if was, twice := b.told.sold[key]; twice && was.ID != r.ID {
			b.told.twice = append(b.told.twice, key)
		}
		b.told.sold[key] = r
		b.stock = append(b.stock, r)
		return true
	default:
		b.told.open[key] = true // an answer that says nothing
	}
	return false
}

// returnOne gives a receipt back.
func (b *buyers) returnOne(ctx context.Context) bool {
	b.mu.Lock()
	if len(b.stock) == 0 {
		b.mu.Unlock()
		return false
	}
	i := mrand.IntN(len(b.stock))
	r := b.stock[i]
	b.stock = slices.Delete(b.stock, i, i+1)
	b.mu.Unlock()
	// "returned before" is an answer too: to a request whose first answer was lost.
	status, _, ok := b.insist(ctx, b.path("/receipts/"+r.ID+"/return"), "")
	b.mu.Lock()
	defer b.mu.Unlock()
	if ok && (status == http.StatusOK || status == http.StatusConflict) {
		b.told.returned[r.ID] = true
	} else {
		b.told.openBack[r.ID] = true
	}
	return true
}

// insist posts to one server after the other until one of them gives an answer that is final.
func (b *buyers) insist(ctx context.Context, path, key string) (status int, body []byte, ok bool) {
	for try := 0; ctx.Err() == nil; try++ {
		if try > 0 {
			b.mu.Lock()
			b.told.repeated++
			b.mu.Unlock()
		}
		url := b.urls[mrand.IntN(len(b.urls))]
		status, body, err := b.send(ctx, url, http.MethodPost, path, key, nil)
		if err == nil && status < http.StatusInternalServerError {
			return status, body, true
		}
		pause(ctx, mrand.N(50*time.Millisecond))
	}
	return 0, nil, false
}

func (b *buyers) send(ctx context.Context, url, method, path, key string, data []byte) (int, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, url+path, bytes.NewReader(data))
	if err != nil {
		return 0, nil, err
	}
	if data != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	resp, err := b.client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	return resp.StatusCode, body, err
}

// get reads a reply of any server.
func (b *buyers) get(ctx context.Context, url, path string, into any) error {
	status, body, err := b.send(ctx, url, http.MethodGet, path, "", nil)
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		return fmt.Errorf("GET %s: status %d: %s", path, status, body)
	}
	return json.Unmarshal(body, into)
}
