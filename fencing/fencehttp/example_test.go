package fencehttp_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/fencing/fencehttp"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/locking/memlock"
	"github.com/fencegate/fencegate/storage"
	"github.com/fencegate/fencegate/storage/memstore"
)

// The shop takes the lock and calls the stock service, which writes. A request that was late
// carries a token that is not current any more, and the store refuses it.
func Example() {
	ctx := context.Background()
	store, err := storage.New(memstore.New(nil), nil)
	if err != nil {
		log.Fatal(err)
	}
	issuer, err := locking.NewIssuer(memlock.New(), []fencing.Fence{store}, nil)
	if err != nil {
		log.Fatal(err)
	}
	locks, err := locking.New(issuer, nil)
	if err != nil {
		log.Fatal(err)
	}

	// The stock service never saw the lock. It hands the token that came with a request to the
	// store.
	stock := httptest.NewServer(fencehttp.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, _ := fencing.FromContext(r.Context(), "coupon:42")
		value, _ := io.ReadAll(r.Body)
		switch _, err := store.Put(r.Context(), token, "left", value); {
		case err == nil:
			w.WriteHeader(http.StatusNoContent)
		case !fencehttp.WriteStale(w, err):
			http.Error(w, "the store does not answer", http.StatusServiceUnavailable)
		}
	}), &fencehttp.Options{Required: true}))
	defer stock.Close()

	// The shop's client sends the context's tokens to the stock service, and to nobody else.
	shop := &http.Client{Transport: &fencehttp.Transport{Allow: func(u *url.URL) bool { return "http://"+u.Host == stock.URL }}}
	put := func(ctx context.Context, left string) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPut, stock.URL, strings.NewReader(left))
		if err != nil {
			fmt.Println(err)
			return
		}
		resp, err := shop.Do(req)
		if err != nil {
			fmt.Println(err)
			return
		}
		_ = resp.Body.Close()
		fmt.Println(left, "left:", resp.Status)
	}

	var late fencing.Token
	for _, left := range []string{"9", "8"} {
		err := locks.Do(ctx, "coupon:42", func(ctx context.Context, token fencing.Token) error {
			put(fencing.NewContext(ctx, token), left)
			if late.Number == 0 {
				late = token
			}
			return nil
		})
		if err != nil {
			fmt.Println(err)
		}
	}
	put(fencing.NewContext(ctx, late), "9")
	put(ctx, "7")
	// Output:
	// 9 left: 204 No Content
	// 8 left: 204 No Content
	// 9 left: 412 Precondition Failed
	// 7 left: 428 Precondition Required
}
