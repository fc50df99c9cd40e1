package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// payments is the client of a payment service. Every call is idempotent under its key, so an
// answer that was lost is asked for again.
type payments struct {
	base   string // of the service, "http://127.0.0.1:1234"
	client *http.Client
}

func newPayments(base string) *payments {
	return &payments{base: base, client: &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		MaxIdleConnsPerHost: 64,
		IdleConnTimeout:     time.Minute,
	}}}
}

func (p *payments) close() { p.client.CloseIdleConnections() }

// payment is one payment as the service knows it.
type payment struct {
	Key    string       `json:"key"`
	Coupon string       `json:"coupon"`
	Amount int64        `json:"amount"` // in cents
	State  paymentState `json:"state"`
}

type paymentState string

const (
	paymentCaptured paymentState = "captured"
	paymentDeclined paymentState = "declined"
	paymentVoid     paymentState = "void" // and never captured again
)

// errVoided says that the payment was given up before. That only happens once the claim has been
// decided, so the decision is there to be read.
var errVoided = errors.New("the payment was voided before")

// capture takes the money, once, however often it is called with a key. Errors: declined,
// paymentUnknown where no answer came, errVoided.
func (p *payments) capture(ctx context.Context, key, coupon string, amount int64) error {
	body := encode(payment{Coupon: coupon, Amount: amount})
	got, err := p.insist(ctx, func() (*http.Request, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.base+"/payments", bytes.NewReader(body))
		if err != nil {
			return nil, err
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Idempotency-Key", key)
		return req, nil
	})
	switch {
	case err != nil:
		return err
	case got.State == paymentDeclined:
		return declined.because("the payment of %d was declined", amount)
	case got.State == paymentVoid:
		return errVoided
	}
	return nil
}

// void gives the money back, if it was taken, and makes sure that it never will be.
func (p *payments) void(ctx context.Context, key string) error {
	_, err := p.insist(ctx, func() (*http.Request, error) {
		return http.NewRequestWithContext(ctx, http.MethodDelete, p.base+"/payments/"+url.PathEscape(key), http.NoBody)
	})
	return err
}

// insist sends a request up to three times, until there is an answer.
func (p *payments) insist(ctx context.Context, request func() (*http.Request, error)) (got payment, err error) {
	for try := range 3 {
		if try > 0 && !pause(ctx, time.Duration(try)*20*time.Millisecond) {
			break
		}
		var req *http.Request
		if req, err = request(); err != nil {
			return got, err
		}
		if err = p.do(req, &got); err == nil {
			return got, nil
		}
	}
	problem := paymentUnknown.because("send the request again with the same Idempotency-Key: nothing is paid twice")
	problem.cause = err
	return got, problem
}

// list returns up to a thousand payments for a coupon after the one with the key after, by key.
func (p *payments) list(ctx context.Context, coupon, after string) (list []payment, err error) {
	q := url.Values{"coupon": {coupon}, "after": {after}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.base+"/payments?"+q.Encode(), http.NoBody)
	if err != nil {
		return nil, err
	}
	return list, p.do(req, &list)
}

func (p *payments) do(req *http.Request, into any) error {
	resp, err := p.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<10))
		return fmt.Errorf("the payment service: %s", resp.Status)
	}
	return json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(into)
}
