package pgtx

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// What is noted on a connection.
const (
	noteConfigured  = "fencegate: configured"
	noteUnconfirmed = "fencegate: commit without its standby"
)

// Configure prepares a pool's configuration for servers with synchronous standbys. When the
// wait for a standby is cancelled, the server answers COMMIT with success and a warning;
// this hook notes the warning on the connection, and [Committed] reads it. Hooks that are
// set already go on working. A second call changes nothing: it makes the same notes.
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

// Configured reports whether the connection's pool was prepared by [Configure].
func Configured(conn *pgx.Conn) bool {
	return conn.PgConn().CustomData()[noteConfigured] != nil
}

// Forget drops what an earlier COMMIT left on the connection. It is called before the next
// one is sent.
func Forget(conn *pgx.Conn) { unconfirmed(conn) }

// unconfirmed reports whether the last COMMIT came back without its standby, once.
func unconfirmed(conn *pgx.Conn) bool {
	data := conn.PgConn().CustomData()
	noted := data[noteUnconfirmed] != nil
	delete(data, noteUnconfirmed)
	return noted
}
