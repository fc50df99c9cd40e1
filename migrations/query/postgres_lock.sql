-- Waits until no other fencegate migrates this database. The number spells "fencegat".
SELECT pg_advisory_lock(x'66656e6365676174'::bigint)
