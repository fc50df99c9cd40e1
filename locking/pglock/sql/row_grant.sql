-- Returns (verdict, number), see the function. $1 resource, $2 grant id, $3 label, $4 TTL in milliseconds, $5 floor, $6 holder.
select verdict, coalesce(number, 0)
from fencegate.row_grant($1::text, $2::text, $3::text, $4::bigint, $5::bigint, $6::text)
