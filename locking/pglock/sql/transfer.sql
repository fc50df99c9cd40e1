-- Returns (verdict, number), see the function. $1 resource, $2 number and $3 grant id of the hold that ends, $4 grant id, $5 label, $6 TTL in milliseconds and $7 floor of the next one.
select verdict, coalesce(number, 0)
from fencegate.lock_transfer($1::text, $2::bigint, $3::text, $4::text, $5::text, $6::bigint, $7::bigint)
