-- Returns (resource, key, value, version) of those records that exist; the value only where it is asked for and may be a counter's, else empty. $1 resources, $2 keys, $3 whether to return the value, side by side.
select r.resource, r.key, r.value, r.version
from unnest($1::text[], $2::text[], $3::boolean[]) as i (resource, key, wanted)
cross join lateral (
	select r.resource, r.key, case when i.wanted and octet_length(r.value) <= 17 then r.value else '' end as value, r.version
	from fencegate.records as r
	where r.resource = i.resource and r.key = i.key
	offset 0 -- a look into the index for each: no plan for all at once, which would have to be made anew for each number of them
) as r
