package pgguard_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/jackc/pgx/v5"
)

// processEnv has the URL of a database when the test program is started as [process].
const processEnv = "FENCEGATE_TEST_PGGUARD_PROCESS"

// process is a client that enters with raw SQL, with the resource and the token in its arguments,
// and changes a row. It says "in" and, when it reads a line, goes on and says how that ended. With
// "busy" it is in the middle of an answer when it says so, which the server does not call idle.
func process(url string) int {
	resource, token, busy := os.Args[1], os.Args[2], os.Args[3] == "busy"
	ctx := context.Background()
	c, err := pgx.Connect(ctx, url)
	if err == nil {
		_, err = c.Exec(ctx, "begin")
	}
	if err == nil {
		_, err = c.Exec(ctx, "select fencegate.enter($1, $2)", resource, token)
	}
	if err == nil {
		_, err = c.Exec(ctx, "update coupons set n = 99 where id = '1'")
	}
	var rows pgx.Rows
	if err == nil && busy { // far more than the sockets hold
		if rows, err = c.Query(ctx, "select repeat('x', 100000) from generate_series(1, 2000)"); err == nil {
			rows.Next()
		}
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("in")
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	if rows != nil {
		for rows.Next() { // to the end
		}
		err = rows.Err()
	}
	_, end := c.Exec(ctx, "commit")
	if err = errors.Join(err, end); err != nil {
		fmt.Println("failed")
	} else {
		fmt.Println("committed")
	}
	return 0
}
