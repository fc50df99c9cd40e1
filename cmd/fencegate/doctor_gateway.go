package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/fencegate/fencegate/gateway/wire"
)

// gatewayFlags name gateways that are asked in place of their lock and store.
type gatewayFlags struct {
	URL         []string `name:"url" placeholder:"URL" env:"FENCEGATE_URL" help:"Ask a gateway about its lock and its store; with commas, several."`
	APIKeyFile  string   `name:"api-key-file" placeholder:"FILE" env:"FENCEGATE_API_KEY_FILE" help:"Where the gateway's API key is, which must have the scope admin. The key itself may be in the variable FENCEGATE_API_KEY."`
	InsecureKey bool     `env:"FENCEGATE_INSECURE_KEY" help:"Send the API key over plain http to other machines, too."`
}

// byURL decides between gateways and servers, as every command does that knows both.
func (f gatewayFlags) byURL(k *kong.Context) (bool, error) {
	return targetFlags{URL: f.URL, Lock: "configured"}.byURL(k)
}

// gatewayParts asks each gateway.
func (c *doctorCmd) gatewayParts(ctx context.Context) ([]part, error) {
	f := targetFlags{URL: c.URL, APIKeyFile: c.APIKeyFile, InsecureKey: c.InsecureKey, Timeout: openTimeout}
	t, err := f.openGateway() // looks at the URLs, and at who may see the key
	if err != nil {
		return nil, err
	}
	defer func() { _ = t.close() }()
	key, err := f.apiKey()
	if err != nil {
		return nil, err
	}
	var parts []part
	for _, url := range c.URL {
		ready, err := askReady(ctx, url, key)
		if err != nil {
			p := newPart("gateway", url)
			p.fail(err)
			parts = append(parts, p)
			continue
		}
		for _, check := range ready.Checks {
			name, kind, _ := strings.Cut(check.Name, " ")
			p := newPart(name, kind)
			p.Gateway, p.Checked = url, append(p.Checked, check.Details...)
			if !check.OK {
				p.fail(unavailableError{errors.New(check.Error)})
			}
			for _, w := range check.Warnings {
				p.add(w)
			}
			parts = append(parts, p)
		}
		if ready.Status == "draining" {
			p := newPart("gateway", url)
			p.add("it is about to stop")
			parts = append(parts, p)
		}
	}
	return parts, nil
}

func askReady(ctx context.Context, url, key string) (ready wire.Ready, err error) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(url, "/")+"/readyz?verbose", nil)
	if err != nil {
		return ready, err
	}
	req.Header.Set("Accept", wire.TypeJSON)
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	// A redirect would take the key elsewhere.
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		return ready, unavailableError{err}
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return ready, unavailableError{err}
	}
	if err := json.Unmarshal(body, &ready); err == nil && ready.Status != "" && len(ready.Checks) > 0 {
		return ready, nil
	}
	var p wire.Problem
	if json.Unmarshal(body, &p) == nil && p.Outcome != "" {
		return ready, p.Err()
	}
	return ready, fmt.Errorf("%s does not answer like a gateway: HTTP status %d", url, resp.StatusCode)
}
