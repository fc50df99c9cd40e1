-- Returns whether the mark changed. $1 resource, $2 number, $3 grant id.
select fencegate.evict($1::text, $2::bigint, $3::text)
