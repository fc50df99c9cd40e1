package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
)

// books is what the API says in the end, when nothing is stopped and nobody buys.
type books struct {
	audit    audit
	receipts map[string]receipt // by id
	stale    int64              // over all processes
}

func (b *buyers) read(ctx context.Context) (k books, err error) {
	if err := b.get(ctx, b.urls[0], b.path("/audit"), &k.audit); err != nil {
		return k, err
	}
	k.receipts = map[string]receipt{}
	for after := ""; ; {
		var page []receipt
		if err := b.get(ctx, b.urls[0], b.path("/receipts?limit="+strconv.Itoa(maxReceipts)+"&after="+after), &page); err != nil {
			return k, err
		}
		for _, r := range page {
			k.receipts[r.ID] = r
			after = r.ID
		}
		if len(page) < maxReceipts {
			break
		}
	}
	for _, url := range b.urls {
		var c countsReply
		if err := b.get(ctx, url, "/counts", &c); err != nil {
			return k, err
		}
		k.stale += c.Stale
	}
	return k, nil
}

// report prints what was sold and whether it adds up; errWrong if it does not.
func (b *buyers) report(ctx context.Context, out io.Writer, stops int) error {
	k, err := b.read(ctx)
	if err != nil {
		return err
	}
	wrong := compare(b.told, k)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(n any, what string) { fmt.Fprintf(w, "%v\t %s\n", n, what) }
	row(k.audit.Stock, "in stock at the beginning")
	row(k.audit.Left, "left")
	row(k.audit.Sold, "sold, by the receipts in the store")
	row(len(b.told.sold)-len(b.told.returned), "sold, by what the clients were told")
	row(k.audit.Returned, "returned and sold again, or left")
	row(b.told.soldOut, "times sold out")
	row(stops, "times a process was stopped past its leases")
	row(k.stale, "stale commits and reads refused")
	row(b.told.repeated, "requests sent again for want of an answer")
	row(len(b.told.open)+len(b.told.openBack), "requests without an answer to the end")
	row(k.audit.Captured, "payments captured")
	row(len(k.audit.WithoutReceipt), "of them without a receipt")
	if err := w.Flush(); err != nil {
		return err
	}
	if n := len(k.audit.WithoutReceipt); n > 0 { // no store checks a payment: said, and not hidden
		fmt.Fprintf(out, "paid and not sold, until the request is sent again: %s\n", strings.Join(k.audit.WithoutReceipt, " "))
	}
	for _, line := range wrong {
		fmt.Fprintln(out, "WRONG:", line)
	}
	if len(wrong) > 0 {
		return errWrong
	}
	fmt.Fprintf(out, "\nleft %d + sold %d = %d: it adds up\n", k.audit.Left, k.audit.Sold, k.audit.Stock)
	return nil
}

// compare says what is wrong with the books, given what the clients were told. It counts for itself
// and takes nothing for granted but the list of receipts and the number that are left.
func compare(told tally, k books) (wrong []string) {
	complain := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	var sold int64
	keys := map[string]string{}
	for id, r := range k.receipts {
		if r.State == receiptSold {
			sold++
		}
		if other, twice := keys[r.Key]; twice {
			complain("one key, two receipts: %s and %s", other, id)
		}
		keys[r.Key] = id
		if _, known := told.sold[r.Key]; !known && !told.open[r.Key] {
			complain("nobody was given the receipt %s", id)
		}
		switch back := told.returned[id]; {
		case back && r.State != receiptReturned:
			complain("the receipt %s was returned, and is not", id)
		case !back && r.State == receiptReturned && !told.openBack[id]:
			complain("nobody returned the receipt %s", id)
		}
	}
	for key, r := range told.sold {
		if _, there := k.receipts[r.ID]; !there {
			complain("the receipt %s of key %s is lost", r.ID, key)
		}
	}
	for _, key := range told.twice {
		complain("the key %s was given two receipts", key)
	}
	for _, id := range k.audit.WithoutPayment {
		complain("the receipt %s was never paid", id)
	}
	if k.audit.Left < 0 {
		complain("%d are left", k.audit.Left)
	}
	if k.audit.Left+sold != k.audit.Stock || sold != k.audit.Sold {
		complain("left %d + sold %d (audit: %d) is not %d", k.audit.Left, sold, k.audit.Sold, k.audit.Stock)
	}
	return wrong
}
