-- Returns whether there was such a hold. $1 resource, $2 number.
select fencegate.lock_evict($1::text, $2::bigint)
