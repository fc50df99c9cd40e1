-- Returns nothing; writes records. $1 resources, $2 keys, $3 values, $4 versions, side by side.
insert into fencegate.records (resource, key, value, version)
select * from unnest($1::text[], $2::text[], $3::bytea[], $4::bigint[])
on conflict (resource, key) do update set value = excluded.value, version = excluded.version
