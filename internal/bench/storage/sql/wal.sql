-- Returns (bytes of WAL that were ever written).
select (pg_current_wal_insert_lsn() - '0/0')::float8
