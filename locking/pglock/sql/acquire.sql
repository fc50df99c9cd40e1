-- Returns (verdict, number, drawn, label, remaining milliseconds), see the function. $1 resource, $2 grant id, $3 label, $4 TTL in milliseconds, $5 floor.
select verdict, coalesce(number, 0), drawn, coalesce(label, ''), coalesce(remaining_ms, 0)
from fencegate.lock_acquire($1::text, $2::text, $3::text, $4::bigint, $5::bigint)
