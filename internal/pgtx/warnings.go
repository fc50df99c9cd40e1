package pgtx

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/fencing"
)

// Words are what a backend says in its own words.
type Words struct {
	Configure string // the function that prepares a pool for synchronous standbys
	Counts    string // what a commit does that came back before its standby had it
	Commit    string // what a weak synchronous_commit means; empty where it means nothing
}

// Warnings tells which settings of the server or of the pool's role lose what was
// acknowledged, or show grant ids, which are secrets. The error is failed.
func Warnings(ctx context.Context, pool *pgxpool.Pool, w *Words) ([]string, error) {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return nil, fencing.AsFailed(err)
	}
	defer conn.Release()
	var fsync, fullPages, commit, standbys, logged string
	if err := conn.QueryRow(ctx, durabilitySQL).Scan(&fsync, &fullPages, &commit, &standbys); err != nil {
		return nil, fencing.AsFailed(err)
	}
	if err := conn.QueryRow(ctx, loggedSQL).Scan(&logged); err != nil {
		return nil, fencing.AsFailed(err)
	}
	var list []string
	if fsync == "off" {
		list = append(list, "fsync is off: a crash of the machine loses acknowledged writes, and can destroy the database")
	}
	if fullPages == "off" {
		list = append(list, "full_page_writes is off: a crash of the machine can destroy the database")
	}
	if w.Commit != "" && (commit == "off" || commit == "local" || commit == "remote_write") {
		list = append(list, "synchronous_commit is "+commit+": "+w.Commit)
	}
	if standbys != "" && !Configured(conn.Conn()) {
		list = append(list, "there are synchronous standbys, and the pool was not prepared with "+w.Configure+
			": a commit that came back before its standby had it "+w.Counts)
	}
	if logged != "" {
		list = append(list, "the parameters of statements, and grant ids with them, can get into the server's log ("+logged+
			"): set log_parameter_max_length and log_parameter_max_length_on_error to 0")
	}
	return list, nil
}
