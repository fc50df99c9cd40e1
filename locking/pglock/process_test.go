package pglock_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/locking"
	"github.com/fencegate/fencegate/locking/pglock"
)

// processEnv has the URL of a database when the test program is started as [process].
const processEnv = "FENCEGATE_TEST_PGLOCK_PROCESS"

// process is a program that waits for the row lock whose name and TTL are its arguments. It says
// "held", and answers each line with what a renewal says, until its input ends.
func process(url string) int {
	err := func() error {
		ctx := context.Background()
		ttl, err := time.ParseDuration(os.Args[2])
		if err != nil {
			return err
		}
		var pools [2]*pgxpool.Pool
		for i := range pools {
			if pools[i], err = pgxpool.New(ctx, url); err != nil {
				return err
			}
		}
		b, err := pglock.NewRowLocks(ctx, pools[0], pools[1], nil)
		if err != nil {
			return err
		}
		r := locking.Request{Resource: os.Args[1], Grant: fencing.NewGrant(), Label: "process", TTL: ttl}
		h, err := b.Join(ctx, r, nil)
		for errors.Is(err, locking.ErrHeld) {
			h, err = b.Join(ctx, r, nil)
		}
		if err != nil {
			return err
		}
		fmt.Println("held")
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			err := b.Renew(ctx, ttl, []fencing.Token{h.Token})[0]
			switch {
			case err == nil:
				fmt.Println("renewed")
			case errors.Is(err, locking.ErrLost):
				fmt.Println("lost")
			default:
				fmt.Println(err)
			}
		}
		return nil
	}()
	if err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}
