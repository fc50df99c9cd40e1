-- Returns (place in the arrays from 1, verdict) for each token, in any order. $1 resources, $2 numbers, $3 grant ids, $4 whose connection is ours, $5 TTL in milliseconds.
select i, verdict from fencegate.row_renew($1::text[], $2::bigint[], $3::text[], $4::boolean[], $5::bigint)
