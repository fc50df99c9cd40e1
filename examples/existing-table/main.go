// Command existing-table guards a table that was there before fencegate, and writes to it in
// five ways, each time with a stale token, without one, and with the current one.
//
// How the table comes to be guarded, in two commands, is in the README beside this file.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/locking/pglock"
	"github.com/fencegate/fencegate/storage/pgstore"
)

const resource = "coupon:42" // the guard's name of the row with the id 42

// config says where everything is.
type config struct {
	lockURL string // of a role that may lock: the schema's owner, or a member of fencegate_gateway
	shopURL string // of the application's role, a member of fencegate_app
	python  string // an interpreter that has psycopg2
	dir     string // this folder, with take.py and take.sql
}

func main() {
	var c config
	flag.StringVar(&c.lockURL, "lock-url", os.Getenv("LOCK_URL"), "postgres://... of a role that may lock")
	flag.StringVar(&c.shopURL, "shop-url", os.Getenv("SHOP_URL"), "postgres://... of the application's role")
	flag.StringVar(&c.python, "python", "python3", "a Python that has psycopg2")
	flag.StringVar(&c.dir, "dir", "examples/existing-table", "the folder with take.py and take.sql")
	flag.Parse()
	if c.lockURL == "" || c.shopURL == "" {
		log.Fatal("existing-table: --lock-url and --shop-url are needed, see its README")
	}
	if err := run(context.Background(), os.Stdout, c); err != nil {
		log.Fatal("existing-table: ", err)
	}
}

func run(ctx context.Context, out io.Writer, c config) error {
	stale, current, err := twoTokens(ctx, c.lockURL)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s was granted with token %d, and with %d after that one had run out\n\n", resource, stale.Number, current.Number)

	shop, err := pgxpool.New(ctx, c.shopURL)
	if err != nil {
		return err
	}
	defer shop.Close()
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintf(w, "written by\twith %d\twithout a token\twith %d\tleft\n", stale.Number, current.Number)
	for _, client := range clients(c, shop) {
		late := verdict(client.take(ctx, stale))
		none := verdict(client.take(ctx, fencing.Token{}))
		good := verdict(client.take(ctx, current))
		var left int
		if err := shop.QueryRow(ctx, "select stock from coupons where id = 42").Scan(&left); err != nil {
			return err
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\n", client.name, late, none, good, left)
	}
	return w.Flush()
}

// twoTokens returns a token that has run out, and the one of the next holder. In real life the
// first is in the hands of a client that was paused, and knows nothing of the second.
func twoTokens(ctx context.Context, url string) (stale, current fencing.Token, err error) {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return stale, current, err
	}
	defer pool.Close()
	lock, err := pglock.New(ctx, pool, nil)
	if err != nil {
		return stale, current, err
	}
	store, err := pgstore.New(ctx, pool, nil)
	if err != nil {
		return stale, current, err
	}
	// The issuer raises every token in the database before it returns it: from then on enter
	// refuses the older ones.
	issuer, err := locking.NewIssuer(lock, []fencing.Fence{store}, nil)
	if err != nil {
		return stale, current, err
	}
	first, err := issuer.Grant(ctx, locking.Request{Resource: resource, Label: "A", TTL: 100 * time.Millisecond})
	if err != nil {
		return stale, current, err
	}
	second, err := issuer.Grant(ctx, locking.Request{Resource: resource, Label: "B", TTL: time.Hour, Wait: 10 * time.Second})
	return first.Token, second.Token, err
}

// verdict says in a word or two what became of a write.
func verdict(err error) string {
	stale, isStale := errors.AsType[*fencing.StaleError](err)
	switch {
	case err == nil:
		return "accepted"
	case isStale:
		return "refused: " + string(stale.Reason)
	case errors.Is(err, errNoToken):
		return "refused: no token"
	}
	return "ERROR: " + err.Error()
}
