-- Returns nothing; writes idempotency records of resources whose marks are locked. $1 resources, $2 keys, $3 fingerprints, $4 numbers, $5 answers, side by side.
insert into fencegate.answers (resource, key, fingerprint, number, answer)
select * from unnest($1::text[], $2::text[], $3::bytea[], $4::bigint[], $5::bytea[])
