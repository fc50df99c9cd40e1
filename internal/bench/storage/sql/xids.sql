-- Returns (the next transaction id). Each transaction that writes takes one.
select pg_snapshot_xmax(pg_current_snapshot())::text::bigint
