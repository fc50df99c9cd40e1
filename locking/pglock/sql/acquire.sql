-- Returns (verdict, number, drawn, label, remaining milliseconds), see the function. $1 resource, $2 grant id, $3 label, $4 TTL in milliseconds, $5 floor, $6 channel of a request that waits, else null.
select verdict, coalesce(number, 0), drawn, coalesce(label, ''), coalesce(remaining_ms, 0)
from fencegate.lock_join($1::text, $2::text, $3::text, $4::bigint, $5::bigint, $6::text)
