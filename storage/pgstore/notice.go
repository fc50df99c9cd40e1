package pgstore

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// What is noted on a connection.
const (
	noteConfigured  = "fencegate/pgstore: configured"
	noteUnconfirmed = "fencegate/pgstore: commit without its standby"
)

// Configure prepares a pool's configuration for servers with synchronous standbys. When the
// wait for a standby is cancelled, the server answers COMMIT with success and a warning;
// this hook notes the warning, and the outcome becomes unknown instead of applied. Hooks that
// are set already go on working. Without synchronous standbys it is not needed.
func Configure(c *pgxpool.Config) {
	notice := c.ConnConfig.OnNotice
	c.ConnConfig.OnNotice = func(conn *pgconn.PgConn, n *pgconn.Notice) {
		// By the routine: the text is translated, and the code is that of any warning.
		if n.Routine == "SyncRepWaitForLSN" {
			conn.CustomData()[noteUnconfirmed] = true
		}
		if notice != nil {
			notice(conn, n)
		}
	}
	after := c.AfterConnect
	c.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		conn.PgConn().CustomData()[noteConfigured] = true
		if after != nil {
			return after(ctx, conn)
		}
		return nil
	}
}

func configured(conn *pgx.Conn) bool {
	return conn.PgConn().CustomData()[noteConfigured] != nil
}

// unconfirmed reports whether the last COMMIT came back without its standby, once.
func unconfirmed(conn *pgx.Conn) bool {
	data := conn.PgConn().CustomData()
	noted := data[noteUnconfirmed] != nil
	delete(data, noteUnconfirmed)
	return noted
}
