package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/gateway/client"
	"github.com/fencegate/fencegate/gateway/wire"
)

// TestHostileGateway: what fits the format and not the request is no answer to it.
func TestHostileGateway(t *testing.T) {
	t.Parallel()
	held := fencing.Token{Resource: "coupon:42", Number: 7, Grant: canary}
	const other = "OTHEROTHEROTHEROTHEROTHERO"
	grant := func(ctx context.Context, c *client.Client) error {
		r := request("coupon:42")
		r.Grant = canary
		_, err := c.Issuer().Grant(ctx, r)
		return err
	}
	renew := func(ctx context.Context, c *client.Client) error {
		second := fencing.Token{Resource: "coupon:43", Number: 7, Grant: canary}
		return errors.Join(c.Issuer().Renew(ctx, time.Minute, []fencing.Token{held, second})...)
	}
	list := func(ctx context.Context, c *client.Client) error {
		_, err := c.Store().List(ctx, "coupon:42", "", "", 10)
		return err
	}
	get := func(ctx context.Context, c *client.Client) error {
		_, err := c.Store().Get(ctx, "coupon:42", "n")
		return err
	}
	fenced := func(ctx context.Context, c *client.Client) error {
		_, err := c.Store().GetFenced(ctx, held, "n")
		return err
	}
	lock := func(token, number, expires, waited string) string {
		return fmt.Sprintf(`{"token":%q,"number":%q,"expires_in":%q,"waited":%q}`, token, number, expires, waited)
	}
	results := func(resource, number string) string {
		return fmt.Sprintf(`{"results":[{"resource":%q,"number":%q},{"resource":"coupon:43","number":"7"}]}`, resource, number)
	}
	unknown := fmt.Sprintf(`{"type":%q,"title":"no","status":504,"outcome":"unknown"}`, wire.Base+wire.SlugUnknown)
	problem := map[string]string{"Content-Type": wire.TypeProblem}
	for name, tc := range map[string]struct {
		call  func(context.Context, *client.Client) error
		reply host
		want  fencing.Outcome
	}{
		"a grant":                {grant, says(201, nil, lock("7."+canary, "7", "30s", "0s")), fencing.Applied},
		"another grant id":       {grant, says(201, nil, lock("7."+other, "7", "30s", "0s")), fencing.Unknown},
		"no grant id":            {grant, says(201, nil, lock("7", "7", "30s", "0s")), fencing.Unknown},
		"another number":         {grant, says(201, nil, lock("7."+canary, "8", "30s", "0s")), fencing.Unknown},
		"it has expired":         {grant, says(201, nil, lock("7."+canary, "7", "0s", "0s")), fencing.Unknown},
		"it expired before":      {grant, says(201, nil, lock("7."+canary, "7", "-1s", "0s")), fencing.Unknown},
		"a wait below zero":      {grant, says(201, nil, lock("7."+canary, "7", "30s", "-1s")), fencing.Unknown},
		"renewals":               {renew, says(200, nil, results("coupon:42", "7")), fencing.Applied},
		"another resource":       {renew, says(200, nil, results("coupon:41", "7")), fencing.Unknown},
		"another token's number": {renew, says(200, nil, results("coupon:42", "8")), fencing.Unknown},
		"too few results":        {renew, says(200, nil, `{"results":[{"resource":"coupon:42","number":"7"}]}`), fencing.Unknown},
		"no results":             {renew, says(200, nil, `{"results":[]}`), fencing.Unknown},
		"a list":                 {list, says(200, nil, `{"records":[]}`), fencing.Applied},
		"a list in circles":      {list, says(200, nil, `{"records":[],"next":"a"}`), fencing.Failed},
		"a read, unknown":        {get, says(504, problem, unknown), fencing.Failed},
		"a list, unknown":        {list, says(504, problem, unknown), fencing.Failed},
		"a fenced read, unknown": {fenced, says(504, problem, unknown), fencing.Unknown},
		"no version":             {get, says(200, nil, "x"), fencing.Failed},
		"a fenced read":          {fenced, says(200, map[string]string{"ETag": `"1"`, wire.HeaderMark: "7"}, "x"), fencing.Applied},
		"another mark":           {fenced, says(200, map[string]string{"ETag": `"1"`, wire.HeaderMark: "8"}, "x"), fencing.Failed},
		"a grant, unknown":       {grant, says(504, problem, unknown), fencing.Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := hostile(t, tc.reply)
			if err := tc.call(t.Context(), c); fencing.OutcomeOf(err) != tc.want {
				t.Errorf("got %v, want %v", err, tc.want)
			}
		})
	}
}

// TestHostileWaited: nobody waited for longer than the request took, whatever a gateway says.
func TestHostileWaited(t *testing.T) {
	t.Parallel()
	c := hostile(t, says(201, nil, `{"token":"7.`+canary+`","number":"7","expires_in":"30s","waited":"1h"}`))
	r := request("coupon:42")
	r.Grant = canary
	sent := time.Now()
	g, err := c.Issuer().Grant(t.Context(), r)
	if took := time.Since(sent); err != nil || g.Waited > took || g.ExpiresIn != 30*time.Second {
		t.Errorf("got %+v, %v after %v", g, err, took)
	}
}

func hostile(t *testing.T, h host) *client.Client {
	t.Helper()
	c, err := client.New("http://a", &client.Options{
		HTTPClient: &http.Client{Transport: fakes{"a": h}}, Retries: -1, Cleanup: 20 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}
