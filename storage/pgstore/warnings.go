package pgstore

import (
	"context"

	"github.com/fencegate/fencegate/fencing"
	"github.com/fencegate/fencegate/internal/pgtx"
)

// Warnings tells, in words, which settings of the server or of this pool's role weaken
// what package storage promises, or show grant ids, which are secrets; none is good.
func (b *Backend) Warnings(ctx context.Context) ([]string, error) {
	conn, err := b.pool.Acquire(ctx)
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
	if commit == "off" || commit == "local" || commit == "remote_write" {
		list = append(list, "synchronous_commit is "+commit+": fenced transactions switch it on, but whatever else writes to this database can lose what was acknowledged")
	}
	if standbys != "" && !pgtx.Configured(conn.Conn()) {
		list = append(list, "there are synchronous standbys, and the pool was not prepared with pgstore.Configure: a commit that came back before its standby had it counts as applied")
	}
	if logged != "" {
		list = append(list, "the parameters of statements, and grant ids with them, can get into the server's log ("+logged+
			"): set log_parameter_max_length and log_parameter_max_length_on_error to 0")
	}
	return list, nil
}
