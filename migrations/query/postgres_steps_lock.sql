-- Waits until no session holds golang-migrate's lock ($1, its number as text), and takes it.
SELECT pg_advisory_lock($1::text::bigint)
