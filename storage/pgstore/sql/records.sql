-- Returns (resource, key, value, version) of those records that exist. $1 resources, $2 keys, side by side.
select r.resource, r.key, r.value, r.version
from unnest($1::text[], $2::text[]) as i (resource, key)
join fencegate.records as r on r.resource = i.resource and r.key = i.key
