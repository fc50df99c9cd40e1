// Package fencehttp carries fencing tokens from service to service over net/http, so that the
// one at the end of a chain of calls can show the store the token that the first one holds.
//
//	client := &http.Client{Transport: &fencehttp.Transport{Allow: isStock}}
//	req, err := http.NewRequestWithContext(fencing.NewContext(ctx, lease.Token()), …)
//
//	http.ListenAndServe(addr, fencehttp.Handler(stock, nil))   // in stock: fencing.FromContext(r.Context(), "coupon:42")
//
// # On the wire
//
// Fencing-Token has a token's text form, as at the gateway: 34.<grant id>. It is read together
// with its resource, which Fencing-Resource names. Several tokens are lists of equal length in
// both headers, with commas:
//
//	Fencing-Token: 34.MFRGGZDFMZTWQ2LKNNWG23TPOB, 7.NBSWY3DPEB3W64TMMQQGC3TEEB
//	Fencing-Resource: coupon:42, order:7
//
// A receiver that knows from the request which resource it is about, as a gateway does from its
// path, needs no Fencing-Resource; see [Options.Resource].
//
// # Guarantees
//
// A token is sent to the hosts that [Transport.Allow] names and to nobody else, also where one
// of them redirects, and also one that a request had before it came to the transport. A token never comes to stand for another resource: what does not fit
// together is refused. Errors and problems show no secret.
//
// # What is not guaranteed
//
// The receiver learns that the sender knows a token, and not that it is current: only a store
// that is shown it, with the write, can tell. So a token that was received must not be taken
// for a permission. Plain http shows it to whoever is in between.
package fencehttp
