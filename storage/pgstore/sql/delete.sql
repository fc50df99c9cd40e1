-- Returns nothing; deletes records. $1 resources, $2 keys, side by side.
delete from fencegate.records as r
using unnest($1::text[], $2::text[]) as i (resource, key)
where r.resource = i.resource and r.key = i.key
