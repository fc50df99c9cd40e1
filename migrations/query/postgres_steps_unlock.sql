-- Gives golang-migrate's lock ($1, its number as text) back.
SELECT pg_advisory_unlock($1::text::bigint)
