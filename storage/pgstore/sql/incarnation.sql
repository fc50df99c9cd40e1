-- Returns what fencegate.incarnation() does. Statements that are run for every commit have it in the function's place: a server plans the function's own query anew each time.
select pg_catalog.to_hex((extract(epoch from pg_catalog.pg_postmaster_start_time()) * 1000000)::bigint) || '-' || pg_catalog.left(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 8)
